package cli

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// What keeps a package readable: no type has more than maxMethods methods; in no folder does more than a third of what its
// files name of one another run against their order, the best there is; and no package of fewer than minLines lines has a
// single importer, which would read better with it inside.
const (
	maxMethods = 40
	minLines   = 120
)

// outOfShape are the packages that are not so yet, by what is wrong with them. The list may only become shorter.
var outOfShape []string

// room is a folder of Go files without its tests.
type room struct {
	lines   int
	imports map[string]bool
	methods map[string]int             // by type
	names   map[string]map[string]bool // by file: the other files of which it names something
}

func TestShape(t *testing.T) {
	rooms := readRooms(t, "..")
	importers := make(map[string]int)
	for _, r := range rooms {
		for p := range r.imports {
			importers[p]++
		}
	}
	found := make(map[string]bool)
	for name, r := range rooms {
		for of, n := range r.methods {
			if n > maxMethods {
				found[fmt.Sprintf("%s.%s has more than %d methods", name, of, maxMethods)] = true
			}
		}
		if back, all := against(r.names); 3*back > all {
			found[name+" has files that name one another without an order"] = true
		}
		if r.lines < minLines && importers[name] == 1 {
			found[fmt.Sprintf("%s has fewer than %d lines and one importer", name, minLines)] = true
		}
	}
	for what := range found {
		if !slices.Contains(outOfShape, what) {
			t.Error(what)
		}
	}
	for _, what := range outOfShape {
		if !found[what] {
			t.Errorf("it is not so any more that %s: strike it from outOfShape", what)
		}
	}
}

// readRooms reads the module's packages, by their folders.
func readRooms(t *testing.T, root string) map[string]*room {
	rooms := make(map[string]*room)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		if base := d.Name(); path != root && (base == "testdata" || base == "tools" || strings.HasPrefix(base, ".")) {
			return fs.SkipDir
		}
		name, err := filepath.Rel(root, path)
		if r := readRoom(t, path); err == nil && r != nil {
			rooms[filepath.ToSlash(name)] = r
		}
		return err
	})
	if err != nil || len(rooms) < 10 {
		t.Fatalf("%d packages, %v", len(rooms), err)
	}
	return rooms
}

// maxSetting is in how many files a setting of a gateway may stand: what it is, its record, its operation and who carries
// that out, the command, its words, and what heeds it.
const maxSetting = 9

// TestASettingStandsInFewFiles takes quiet hours for all settings of a gateway: what each layer needs of them is made from
// the record and the table of operations, so that nobody has to write them down once more.
func TestASettingStandsInFewFiles(t *testing.T) {
	set, in := token.NewFileSet(), make(map[string]bool)
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || d.Name() == "tools" || path != ".." && strings.HasPrefix(d.Name(), ".")):
			return fs.SkipDir
		case !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		f, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
		if err == nil {
			ast.Inspect(f, func(n ast.Node) bool {
				if id, ok := n.(*ast.Ident); ok && strings.Contains(id.Name, "Quiet") {
					in[path] = true
				}
				return true
			})
		}
		return err
	})
	if err != nil || len(in) < 3 || len(in) > maxSetting {
		t.Errorf("quiet hours stand in %d files, %v; want at most %d: %v", len(in), err, maxSetting, slices.Sorted(maps.Keys(in)))
	}
}

// nothing imports nothing: what other packages have is not needed to see what the files of one name of one another.
type nothing struct{}

func (nothing) Import(string) (*types.Package, error) { return nil, errors.New("not needed") }

func readRoom(t *testing.T, dir string) *room {
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	set, r := token.NewFileSet(), &room{imports: make(map[string]bool), methods: make(map[string]int), names: make(map[string]map[string]bool)}
	var files []*ast.File
	for _, p := range paths {
		if strings.HasSuffix(p, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(set, p, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
		r.names[p] = make(map[string]bool)
		r.lines += set.File(f.FileStart).LineCount()
		for _, i := range f.Imports {
			if path, err := strconv.Unquote(i.Path.Value); err == nil {
				r.imports[short(path)] = true
			}
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv != nil {
				of := fn.Recv.List[0].Type
				if star, ok := of.(*ast.StarExpr); ok {
					of = star.X
				}
				r.methods[types.ExprString(of)]++
			}
		}
	}
	if len(files) == 0 {
		return nil
	}
	info := types.Info{Uses: make(map[*ast.Ident]types.Object)}
	config := types.Config{Importer: nothing{}, Error: func(error) {}, FakeImportC: true}
	pkg, _ := config.Check(dir, set, files, &info)
	for id, what := range info.Uses {
		if what.Pkg() != pkg || !what.Pos().IsValid() {
			continue
		}
		if from, to := set.File(id.Pos()).Name(), set.File(what.Pos()).Name(); from != to {
			r.names[from][to] = true
		}
	}
	return r
}

// against counts the references between files, and those of them that run against the best order that is found: files
// stand behind those that they name, as far as that can be, and each is moved to where it is against the order least.
func against(names map[string]map[string]bool) (back, all int) {
	var order []string
	for f, to := range names {
		order = append(order, f)
		all += len(to)
	}
	slices.Sort(order)
	for better := true; better; {
		better = false
		for _, f := range slices.Clone(order) {
			was := slices.Index(order, f)
			rest := slices.Delete(slices.Clone(order), was, was+1)
			// at is how many references from or to f run against the order with f before rest[i].
			at := 0
			for range names[f] {
				at++ // all that f names stands behind it
			}
			costs := []int{at}
			for _, g := range rest {
				if names[f][g] {
					at--
				}
				if names[g][f] {
					at++
				}
				costs = append(costs, at)
			}
			best := slices.Index(costs, slices.Min(costs))
			if costs[best] < costs[was] {
				order, better = slices.Insert(rest, best, f), true
			}
		}
	}
	for i, f := range order {
		for _, g := range order[i+1:] {
			if names[f][g] {
				back++
			}
		}
	}
	return back, all
}

func TestAgainst(t *testing.T) {
	for name, tc := range map[string]struct {
		names     string // "a>b": a names something of b
		back, all int
	}{
		"nobody":                       {"", 0, 0},
		"a line":                       {"c>b b>a c>a", 0, 3},
		"two name each other":          {"a>b b>a", 1, 2},
		"one ring":                     {"a>b b>c c>a", 1, 3},
		"all name all":                 {"a>b b>a b>c c>b a>c c>a", 3, 6},
		"one is named by all, and one": {"a>z b>z c>z z>b", 1, 4},
	} {
		names := map[string]map[string]bool{"a": {}, "b": {}, "c": {}, "z": {}}
		for pair := range strings.FieldsSeq(tc.names) {
			from, to, _ := strings.Cut(pair, ">")
			names[from][to] = true
		}
		if back, all := against(names); back != tc.back || all != tc.all {
			t.Errorf("%s: %d of %d, want %d of %d", name, back, all, tc.back, tc.all)
		}
	}
}
