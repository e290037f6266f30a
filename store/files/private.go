package files

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// mounted is where containers mount their secrets, which everybody in the container may read.
const mounted = "/run/secrets/"

// Private returns an error if other users can read or change the file at path, which st describes. They cannot if the
// mode of the file, or that of its folder, keeps them out. Root's files may be open to their group, as packages and
// systemd's credentials are: root decides who is in it. The error does not repeat path.
func Private(path string, st fs.FileInfo) error {
	mode, real := st.Mode().Perm(), path
	if to, err := filepath.EvalSymlinks(path); err == nil {
		real = to
	}
	if closed(st, Owner(st)) || strings.HasPrefix(real, mounted) && mode&0o002 == 0 {
		return nil
	}
	dir, err := os.Stat(filepath.Dir(real))
	if err == nil && mode&0o022 == 0 && closed(dir, 0, os.Geteuid(), Owner(st)) {
		return nil
	}
	return fmt.Errorf("others can read or change that file (mode %04o): chmod 600 it", mode)
}

// closed reports whether the file or folder that st describes belongs to one of owners and keeps everybody else out; if
// it belongs to root, it may let its group in.
func closed(st fs.FileInfo, owners ...int) bool {
	mode, of := st.Mode().Perm(), Owner(st)
	return slices.Contains(owners, of) && (mode&0o077 == 0 || of == 0 && mode&0o027 == 0)
}

// Owner returns the number of the user who owns a file; negative: not known.
func Owner(st fs.FileInfo) int {
	if sys, ok := st.Sys().(*syscall.Stat_t); ok {
		return int(sys.Uid)
	}
	return -1
}
