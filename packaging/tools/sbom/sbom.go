// Command sbom writes the bill of materials of a binary, in the JSON form of CycloneDX 1.5, from the record that the Go
// tool left in the binary. Two runs on one binary give the same bytes.
//
// usage: sbom BINARY >FILE
package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

// bill is the document; the types below are its parts, with the field names of CycloneDX.
type bill struct {
	Format     string      `json:"bomFormat"`
	Spec       string      `json:"specVersion"`
	Serial     string      `json:"serialNumber"`
	Version    int         `json:"version"`
	Metadata   metadata    `json:"metadata"`
	Components []component `json:"components"`
}

type metadata struct {
	Component  component  `json:"component"`
	Properties []property `json:"properties"`
}

type component struct {
	Type       string     `json:"type"`
	Ref        string     `json:"bom-ref"`
	Name       string     `json:"name"`
	Version    string     `json:"version"`
	PURL       string     `json:"purl"`
	Hashes     []hash     `json:"hashes,omitempty"`
	Properties []property `json:"properties,omitempty"`
}

type hash struct {
	Alg     string `json:"alg"`
	Content string `json:"content"`
}

type property struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

func run(args []string, to io.Writer) error {
	if len(args) != 1 {
		return fmt.Errorf("usage: sbom BINARY")
	}
	raw, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	info, err := buildinfo.ReadFile(args[0])
	if err != nil {
		return err
	}
	sum := sha256.Sum256(raw)
	b := bill{
		Format: "CycloneDX", Spec: "1.5", Version: 1,
		Serial:   "urn:uuid:" + uuid(sum),
		Metadata: metadata{Component: describe("application", &info.Main)},
	}
	b.Metadata.Component.Hashes = []hash{{"SHA-256", hex.EncodeToString(sum[:])}}
	b.Metadata.Properties = []property{{"file", filepath.Base(args[0])}}
	for _, s := range info.Settings {
		b.Metadata.Properties = append(b.Metadata.Properties, property{"build:" + s.Key, s.Value})
	}
	version := strings.TrimPrefix(info.GoVersion, "go")
	b.Components = append(b.Components, component{
		Type: "library", Ref: "pkg:golang/std@" + version, Name: "std", Version: version, PURL: "pkg:golang/std@" + version,
	})
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		b.Components = append(b.Components, describe("library", m))
	}
	e := json.NewEncoder(to)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(b)
}

// describe returns the entry of a module; kind is a type of CycloneDX.
func describe(kind string, m *debug.Module) component {
	purl := "pkg:golang/" + m.Path + "@" + url.PathEscape(m.Version)
	c := component{Type: kind, Ref: purl, Name: m.Path, Version: m.Version, PURL: purl}
	if m.Sum != "" { // Go's own hash of a module's files
		c.Properties = []property{{"go:sum", m.Sum}}
	}
	return c
}

// uuid makes a UUID of version 8, whose content its maker defines: here the beginning of a checksum.
func uuid(sum [32]byte) string {
	sum[6], sum[8] = sum[6]&0x0f|0x80, sum[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
}
