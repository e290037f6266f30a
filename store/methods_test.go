package store

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hermes-connector/hermes-connector/testdata/must"
)

// TestNoTypeDoesEverything, here and in the packages below: what is about one kind of record is a method of a type of that
// kind's.
func TestNoTypeDoesEverything(t *testing.T) {
	here, err1 := filepath.Glob("*.go")
	below, err2 := filepath.Glob("*/*.go")
	if err1 != nil || err2 != nil || len(here) == 0 || len(below) == 0 {
		t.Fatal("no files: ", err1, err2)
	}
	methods := make(map[string]int)
	for _, name := range append(here, below...) {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		must.Succeed(t, err)
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Recv == nil {
				continue
			}
			who, _, _ := strings.Cut(strings.TrimPrefix(types.ExprString(fn.Recv.List[0].Type), "*"), "[")
			methods[filepath.Dir(name)+" "+who]++
		}
	}
	if methods[". DB"] < 20 {
		t.Errorf("counted %d methods of DB", methods[". DB"])
	}
	for who, n := range methods {
		if n > 40 {
			t.Errorf("%s has %d methods, want at most 40", who, n)
		}
	}
}
