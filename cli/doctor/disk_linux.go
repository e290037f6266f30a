package doctor

import "syscall"

// diskOf is the file system that path lies in.
func diskOf(path string) (disk, error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(path, &st); err != nil {
		return disk{}, err
	}
	return disk{
		kind: uint32(st.Type), free: st.Bavail * uint64(st.Bsize), inodes: st.Files, left: st.Ffree,
	}, nil
}

// mayWrite reports whether this process may make files in the folder.
func mayWrite(folder string) error { return syscall.Access(folder, 3) } // to write, and to search

// held reports whether another process has the open database to itself; else it keeps others out until f is closed.
func held(f uintptr) bool {
	return syscall.Flock(int(f), syscall.LOCK_SH|syscall.LOCK_NB) == syscall.EWOULDBLOCK
}
