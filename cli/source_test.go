package cli

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestForbiddenCalls walks the source: contexts begin in cli, and nothing sleeps (a wait is a
// select on a timer and a context). Tests may do as they like.
func TestForbiddenCalls(t *testing.T) {
	files := 0
	root := os.DirFS("..")
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata"):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		src, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		files++
		for _, fault := range forbidden(t, filepath.ToSlash(name), src) {
			t.Error(fault)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 2 {
		t.Errorf("walked over %d files", files)
	}
}

func TestForbidden(t *testing.T) {
	for name, tc := range map[string]struct {
		file, imports, call string
		want                string // empty: allowed
	}{
		"a context in cli":         {"cli/main.go", `"context"`, "context.Background()", ""},
		"a context below cli":      {"cli/echo/echo.go", `"context"`, "context.Background()", ""},
		"a context that is handed": {"store/db.go", `"context"`, "context.WithoutCancel(nil)", ""},
		"another package's Sleep":  {"store/db.go", `time "example.org/time"`, "time.Sleep(1)", ""},
		"a context elsewhere":      {"store/db.go", `"context"`, "context.Background()", "store/db.go:4: context.Background"},
		"a context to do":          {"client/x.go", `"context"`, "context.TODO()", "client/x.go:4: context.TODO"},
		"a nap, even in cli":       {"cli/main.go", `"time"`, "time.Sleep(1)", "cli/main.go:4: time.Sleep"},
		"a nap under another name": {"cli/main.go", `clock "time"`, "clock.Sleep(1)", "cli/main.go:4: time.Sleep"},
		"a nap as a value":         {"cli/main.go", `"time"`, "f(time.Sleep)", "cli/main.go:4: time.Sleep"},
	} {
		t.Run(name, func(t *testing.T) {
			src := fmt.Sprintf("package x\nimport %s\nfunc init() {\n%s\n}\n", tc.imports, tc.call)
			if got := strings.Join(forbidden(t, tc.file, []byte(src)), "; "); got != tc.want {
				t.Errorf("forbidden = %q, want %q", got, tc.want)
			}
		})
	}
}

// forbidden lists the uses in one file of what may not be used there. name is relative to the
// root of the module.
func forbidden(t *testing.T, name string, src []byte) []string {
	banned := []string{"time.Sleep"}
	if !strings.HasPrefix(name, "cli/") {
		banned = append(banned, "context.Background", "context.TODO")
	}
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, src, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	imported := make(map[string]string) // name in this file to path
	for _, i := range file.Imports {
		importPath := strings.Trim(i.Path.Value, `"`)
		local := importPath[strings.LastIndex(importPath, "/")+1:]
		if i.Name != nil {
			local = i.Name.Name
		}
		imported[local] = importPath
	}
	var out []string
	ast.Inspect(file, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if x, ok := sel.X.(*ast.Ident); ok {
			if use := imported[x.Name] + "." + sel.Sel.Name; slices.Contains(banned, use) {
				out = append(out, fmt.Sprintf("%s:%d: %s", name, files.Position(n.Pos()).Line, use))
			}
		}
		return true
	})
	return out
}
