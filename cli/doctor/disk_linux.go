package doctor

import "syscall"

// diskOf returns the file system that path lies in.
func diskOf(path string) (disk, error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(path, &st); err != nil {
		return disk{}, err
	}
	return disk{
		kind: uint32(st.Type), free: st.Bavail * uint64(st.Bsize), inodes: st.Files, left: st.Ffree,
	}, nil
}

// mayWrite returns nil if this process may make files in the folder, else the reason why it may not.
func mayWrite(folder string) error { return syscall.Access(folder, 3) } // W_OK and X_OK

// held reports whether another process has locked the open database f. If not, this process now holds a shared lock,
// and no server can start until f is closed.
func held(f uintptr) bool {
	return syscall.Flock(int(f), syscall.LOCK_SH|syscall.LOCK_NB) == syscall.EWOULDBLOCK
}
