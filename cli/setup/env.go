package setup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/hermes-connector/hermes-connector/store/files"
)

const maxEnvFile = 1 << 20 // bytes

var assignment = regexp.MustCompile(`^\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=`)

// nameIn is the variable that a line of a .env file sets; empty: none.
// It is not inlined: many call it, and none of them in a hurry.
//
//go:noinline
func nameIn(line string) string {
	if m := assignment.FindStringSubmatch(line); m != nil {
		return m[1]
	}
	return ""
}

// mergeEnv is a .env file with lines in it: a name that is there is replaced where it stands first, and stands nowhere
// else afterwards; the others come to the end, with their comments. The file ends with its last line.
func mergeEnv(file string, lines []string) string {
	file = strings.TrimRight(file, "\n")
	var all []string
	if file != "" {
		all = strings.Split(file, "\n")
	}
	var added, comment []string
	for _, line := range lines {
		name := nameIn(line)
		if name == "" {
			comment = append(comment, line)
			continue
		}
		first := slices.IndexFunc(all, func(l string) bool { return nameIn(l) == name })
		if first < 0 {
			added = append(append(added, comment...), line)
		} else {
			all[first] = line
			rest := slices.DeleteFunc(slices.Clone(all[first+1:]), func(l string) bool { return nameIn(l) == name })
			all = append(all[:first+1], rest...)
		}
		comment = nil
	}
	return strings.Join(append(all, added...), "\n") + "\n"
}

// writeEnv puts lines into the .env file at path, which only its owner can read afterwards. It appears whole or not at
// all; a link stays one.
func writeEnv(path string, lines []string) error {
	if to, err := filepath.EvalSymlinks(path); err == nil {
		path = to
	}
	st, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return fmt.Errorf("env file: %w", err)
	case !st.Mode().IsRegular() || st.Size() > maxEnvFile:
		return fmt.Errorf("env file: %s is no ordinary file, or too large for one", path)
	}
	raw, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("env file: %w", err)
	}
	if err := replace(path, []byte(mergeEnv(string(raw), lines)), 0o600); err != nil {
		return fmt.Errorf("env file: %w", err)
	}
	return nil
}

// replace writes a file in one step, as mode, for the owner of what was there or of the folder, which is made.
func replace(path string, content []byte, mode os.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return files.Aside(path, "."+filepath.Base(path)+".new-*", fill(path, content, mode), func(temp string) error {
		return files.Replace(temp, path, "")
	})
}

// create is replace for a file that must not be there: fs.ErrExist.
func create(path string, content []byte, mode os.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return files.Create(path, "."+filepath.Base(path)+".new-*", fill(path, content, mode))
}

func fill(path string, content []byte, mode os.FileMode) func(*os.File) error {
	return func(f *os.File) error {
		files.Give(f, path)
		_, err := f.Write(content)
		return errors.Join(f.Chmod(mode), err)
	}
}
