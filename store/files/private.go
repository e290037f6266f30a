package files

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// mounted is where containers put their secrets, readable by whoever is in the container.
const mounted = "/run/secrets/"

// Private returns nil if no other user can read or change the file at path, which st describes, and else why that
// is not so. Nobody else can where the file, or the folder that holds it, is closed to them. A file of root's may
// be open to its group, for root decides who is in it: so packages and systemd's credentials do it. The error does
// not repeat path.
func Private(path string, st fs.FileInfo) error {
	mode, real := st.Mode().Perm(), path
	if to, err := filepath.EvalSymlinks(path); err == nil {
		real = to
	}
	if closed(st, 0, Owner(st)) || strings.HasPrefix(real, mounted) && mode&0o002 == 0 {
		return nil
	}
	dir, err := os.Stat(filepath.Dir(real))
	if err == nil && mode&0o022 == 0 && closed(dir, 0, os.Geteuid(), Owner(st)) {
		return nil
	}
	return fmt.Errorf("others can read or change that file (mode %04o): chmod 600 it", mode)
}

// closed reports whether nobody but one of the owners, root, and the group that root gave it to can use what st describes.
func closed(st fs.FileInfo, owners ...int) bool {
	mode, of := st.Mode().Perm(), Owner(st)
	for _, o := range owners {
		if o == of && (mode&0o077 == 0 || of == 0 && mode&0o027 == 0) {
			return true
		}
	}
	return false
}

// Owner is the id of the user whom a file belongs to; negative: not known.
func Owner(st fs.FileInfo) int {
	if sys, ok := st.Sys().(*syscall.Stat_t); ok {
		return int(sys.Uid)
	}
	return -1
}
