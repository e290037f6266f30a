// Package proxy holds the configuration of each reverse proxy that can stand in front of the server, a file for each.
// There is one copy of each: the help topic proxy shows the files, and setup fills in the host and the address. Tests
// run nginx and Caddy with them.
package proxy

import (
	"embed"
	"strings"
)

// Files holds the configurations. Each is written for the host relay.example.net and a server on 127.0.0.1:8787.
//
//go:embed Caddyfile nginx.conf traefik.yaml
var Files embed.FS

// For returns the text of a file, filled in for the host that gateways dial and the address that the server listens on.
// It panics if there is no such file.
func For(file, host, address string) string {
	text, err := Files.ReadFile(file)
	if err != nil {
		panic(err)
	}
	return strings.NewReplacer("relay.example.net", host, "127.0.0.1:8787", address).Replace(string(text))
}
