package files

import (
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// A file that this program found by itself, without anybody naming it, is used only if it belongs to this user or to
// root. Otherwise another user could decide what a command of this user reads, and with which server it talks.

// Foreign returns an error if the file at path, or its folder, belongs to a user other than this one and root, or if
// others can write to it. Of a symbolic link, the link and its target are checked. A sticky folder is not safe either:
// others cannot replace the file, but they can put files beside it that the file names.
func Foreign(path string) error {
	link, err := os.Lstat(path)
	if err != nil {
		return err
	}
	all := []string{path}
	if link.Mode().Type() == fs.ModeSymlink {
		if who := other(Owner(link), os.Geteuid()); who != "" {
			return fmt.Errorf("the link belongs to the user %s", who)
		}
		real, err := filepath.EvalSymlinks(path)
		if err != nil {
			return err
		}
		all = append(all, real)
	}
	for _, p := range all {
		for _, at := range []struct{ path, what string }{{p, "it"}, {filepath.Dir(p), "the folder that it lies in"}} {
			st, err := os.Stat(at.path)
			if err != nil {
				return err
			}
			if why := foreign(st.Mode(), Owner(st), Group(st), os.Geteuid()); why != "" {
				return fmt.Errorf("%s %s", at.what, why)
			}
		}
	}
	return nil
}

// foreign returns why a file with that mode, owner and group is not safe for the user me; empty: it is safe. A group
// with a user's number counts as that user's own, because most systems make it so.
func foreign(mode fs.FileMode, owner, group, me int) string {
	switch who := other(owner, me); {
	case who != "":
		return "belongs to the user " + who
	case mode.Perm()&0o002 != 0, mode.Perm()&0o020 != 0 && group != 0 && group != me:
		return fmt.Sprintf("can be written by others (mode %04o)", mode.Perm())
	}
	return ""
}

// Anothers returns the name of the owner of the file at path, if that is neither this user nor root. It is empty
// otherwise, and if there is no such file.
func Anothers(path string) string {
	st, err := os.Stat(path)
	if err != nil {
		return ""
	}
	return other(Owner(st), os.Geteuid())
}

// other returns the name of owner, if that is neither me nor root.
func other(owner, me int) string {
	if owner == me || owner == 0 || owner < 0 {
		return ""
	}
	id := strconv.Itoa(owner)
	if u, err := user.LookupId(id); err == nil {
		return u.Username
	}
	return id // the system knows no name, for example of a container's user
}

// Group returns the number of the group that a file belongs to; -1: not known.
func Group(st fs.FileInfo) int {
	if sys, ok := st.Sys().(*syscall.Stat_t); ok {
		return int(sys.Gid)
	}
	return -1
}
