// Command hermes-connector keeps the chat platforms' sockets and credentials, and lets Hermes
// gateways dial in for them. See README.md.
package main

import (
	"os"

	"github.com/hermes-connector/hermes-connector/cli"
)

func main() { os.Exit(cli.Main()) }
