package main

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"
)

// TestBill: this test's own binary is described, twice in the same bytes.
func TestBill(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var one, two bytes.Buffer
	for _, to := range []*bytes.Buffer{&one, &two} {
		if err := run([]string{self}, to); err != nil {
			t.Fatal(err)
		}
	}
	if one.String() != two.String() {
		t.Error("two runs differ")
	}
	var got bill
	if err := json.Unmarshal(one.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if got.Format != "CycloneDX" || got.Spec != "1.5" || len(got.Metadata.Component.Hashes) != 1 || len(got.Components) == 0 {
		t.Errorf("got %s", &one)
	}
	if c := got.Components[0]; c.Name != "std" || !strings.HasPrefix(c.PURL, "pkg:golang/std@1.") {
		t.Errorf("the first component is %+v, want Go's own library", c)
	}
}

func TestNoBinary(t *testing.T) {
	for _, args := range [][]string{{}, {"sbom.go"}, {"nowhere"}} {
		var out bytes.Buffer
		if err := run(args, &out); err == nil || out.Len() > 0 {
			t.Errorf("run(%q) = %v, and wrote %q", args, err, &out)
		}
	}
}
