// Package proxy has what a reverse proxy in front of the server needs, a file for each. It stands once: the topic proxy shows
// the files, and setup fills them in. Tests run nginx and Caddy with them.
package proxy

import (
	"embed"
	"strings"
)

// Files are all of them. Each is for the host relay.example.net and a server on 127.0.0.1:8787.
//
//go:embed Caddyfile nginx.conf traefik.yaml
var Files embed.FS

// For is a file for the host that is dialled, and the address that the server listens on. It panics when there is no such file.
func For(file, host, address string) string {
	text, err := Files.ReadFile(file)
	if err != nil {
		panic(err)
	}
	return strings.NewReplacer("relay.example.net", host, "127.0.0.1:8787", address).Replace(string(text))
}
