package api

import (
	_ "embed"
	"net/http"
)

//go:embed openapi.json
var openAPI []byte

// serveOpenAPI answers GET /openapi.json.
func (s *Server) serveOpenAPI(w http.ResponseWriter, _ *http.Request) error {
	respond(w, http.StatusOK, "application/json", openAPI)
	return nil
}
