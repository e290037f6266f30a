package mcp

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
)

// asServer makes the test binary a server: the folder of its spool and the address of its connector.
const asServer = "MCP_TEST_SERVER"

func TestMain(m *testing.M) {
	if os.Getenv(asServer) == "" {
		os.Exit(m.Run())
	}
	dir, url, _ := strings.Cut(os.Getenv(asServer), " ")
	err := New(Options{
		Credential: credentialFor(url), Dir: dir, History: 200, Claude: true, ApproveIn: dmKey + "7", Version: "test",
		In: os.Stdin, Out: os.Stdout, Log: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	}).Run(context.Background())
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
