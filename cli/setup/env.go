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

// nameIn returns the variable that a line of a .env file sets; empty: none.
func nameIn(line string) string {
	if m := assignment.FindStringSubmatch(line); m != nil {
		return m[1]
	}
	return ""
}

// mergeEnv returns the text of a .env file with lines merged into it. A line whose variable the file sets already takes
// the place of the first such line, and further such lines are removed. The other lines, with the comments above them,
// are added at the end.
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

// readEnv returns the .env file's path, with links resolved, and its content; a missing file is empty.
func readEnv(path string) (to string, content []byte, err error) {
	if at, err := filepath.EvalSymlinks(path); err == nil {
		path = at
	}
	st, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return path, nil, nil
	case err != nil:
		return path, nil, fmt.Errorf("env file: %w", err)
	case !st.Mode().IsRegular() || st.Size() > maxEnvFile:
		return path, nil, fmt.Errorf("env file: %s is not a regular file, or is too large", path)
	}
	if content, err = os.ReadFile(path); err != nil {
		err = fmt.Errorf("env file: %w", err)
	}
	return path, content, err
}

// envHolds reports whether the .env file has the lines of a gateway, and whether they make it dial that address.
func envHolds(path, name, address string) (lines, dials bool, err error) {
	_, content, err := readEnv(path)
	for line := range strings.Lines(string(content)) {
		_, value, _ := strings.Cut(line, "=")
		switch value = strings.Trim(strings.TrimSpace(value), `"'`); nameIn(line) {
		case "GATEWAY_RELAY_ID":
			lines = value == name
		case "GATEWAY_RELAY_URL":
			dials = value == address
		}
	}
	return lines, dials, err
}

// botToken matches the variables that make a gateway run a bot of its own.
var botToken = regexp.MustCompile(`^(?:[A-Z]+_BOT_TOKEN|MATTERMOST_TOKEN|MATRIX_ACCESS_TOKEN)$`)

// envBots returns the variables of the .env file that make a gateway run bots of its own.
func envBots(path string) (names []string, err error) {
	_, content, err := readEnv(path)
	for line := range strings.Lines(string(content)) {
		_, value, _ := strings.Cut(line, "=")
		if name := nameIn(line); botToken.MatchString(name) && strings.Trim(strings.TrimSpace(value), `"'`) != "" {
			names = append(names, name)
		}
	}
	return names, err
}

// writableEnv returns the error with which writeEnv would fail, as far as that can be known before. It makes the file's
// folder.
func writableEnv(path string) error {
	path, _, err := readEnv(path)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o700)
	}
	if err == nil {
		var f *os.File
		if f, err = os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".new-*"); err == nil {
			err = errors.Join(f.Close(), os.Remove(f.Name()))
		}
	}
	if err != nil {
		err = fmt.Errorf("no credentials were made: %w", refused(path, err))
	}
	return err
}

// writeEnv merges lines into the .env file at path, which only its owner can read afterwards. The file is replaced in
// one step. If path is a link, the file that it leads to is replaced.
func writeEnv(path string, lines []string) error {
	path, raw, err := readEnv(path)
	if err != nil {
		return err
	}
	if err := replace(path, []byte(mergeEnv(string(raw), lines)), 0o600); err != nil {
		return fmt.Errorf("env file: %w", err)
	}
	return nil
}

// replace writes a file in one step, with that mode, and makes its folder. If root runs setup, the file belongs to the
// owner of the former file or else of the folder.
func replace(path string, content []byte, mode os.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return refused(path, files.Aside(path, "."+filepath.Base(path)+".new-*", fill(path, content, mode), func(temp string) error {
		return files.Replace(temp, path, "")
	}))
}

// create is replace for a new file. It returns fs.ErrExist if the file exists.
func create(path string, content []byte, mode os.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return refused(path, files.Create(path, "."+filepath.Base(path)+".new-*", fill(path, content, mode)))
}

// refused returns an error in words if err means that this user may not write there; otherwise it returns err.
func refused(path string, err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("this user may not create files in %s", filepath.Dir(path))
	}
	return err
}

func fill(path string, content []byte, mode os.FileMode) func(*os.File) error {
	return func(f *os.File) error {
		files.Give(f, path)
		_, err := f.Write(content)
		return errors.Join(f.Chmod(mode), err)
	}
}
