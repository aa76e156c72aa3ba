// Package servers starts the real servers that the tests speak to: a Kafka
// broker, an Elasticsearch node and an OpenSearch node, each one JVM made from
// the jars that Maven Central publishes, and object stores with the interfaces
// of S3, Google and Azure, of the registries of Python, Go and Node. Nothing is mocked and nothing is
// skipped: where a server cannot start, the error says what is missing.
//
// The first start fetches jars into the user's cache folder (TIDEMARK_CACHE,
// else the system's one); later ones take seconds. Servers listen on free
// ports of the loopback interface, keep their data below the folder given,
// are ready when Start returns, and are stopped by process id.
//
// It wants a JDK 17 or later and Maven, and for object stores Python with pip
// and Node with npm; setup installs them on Debian.
package servers
