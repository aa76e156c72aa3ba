# syntax=docker/dockerfile:1
# The binary alone, static, in an empty image, not as root.

FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=unknown
RUN CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.release=${VERSION}" -o /out/tidemark ./cmd/tidemark \
 && mkdir -p /out/data

FROM scratch
ARG VERSION=unknown
LABEL org.opencontainers.image.title="Tidemark" \
      org.opencontainers.image.description="Exact running totals over Kafka, by a SQL query" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}"
# The authorities for TLS, and the zones for events.timestamp_zone.
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /usr/local/go/lib/time/zoneinfo.zip /usr/share/
ENV ZONEINFO=/usr/share/zoneinfo.zip
COPY --from=build /out/tidemark /usr/bin/tidemark
# state.dir of a configuration in the container; mount a volume here.
COPY --from=build --chown=65532:65532 /out/data /var/lib/tidemark
USER 65532:65532
WORKDIR /var/lib/tidemark
VOLUME /var/lib/tidemark
EXPOSE 8080
ENTRYPOINT ["/usr/bin/tidemark"]
CMD ["serve", "-c", "/etc/tidemark/tidemark.yaml"]
