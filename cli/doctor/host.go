package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"strconv"
	"syscall"
	"time"

	"github.com/hermes-connector/hermes-connector/cli/config"
	"github.com/hermes-connector/hermes-connector/relay/finding"
	"github.com/hermes-connector/hermes-connector/store/cluster"
	"github.com/hermes-connector/hermes-connector/vault"
)

const (
	diskIsLow  = 200 << 20 // bytes
	inodesLow  = 1000
	endsWithin = 14 * 24 * time.Hour // how long before its end a certificate is reported
)

// Host returns the findings about the data folder, the disk, the key and the certificate, and about addresses that
// listen without TLS. It is cheap: the running server calls it, too.
func Host(cfg *config.Config, now time.Time) finding.List {
	m := machine{}.orReal()
	return append(host(cfg, m, now), inTheClear(cfg, m)...)
}

// host returns the findings of Host on the machine m, except those about addresses without TLS.
func host(cfg *config.Config, m machine, now time.Time) finding.List {
	out := folder(cfg, m)
	if cfg.TLS.On() {
		out = append(out, certificate(cfg, m, now)...)
	}
	return out
}

// folder returns the findings about the data folder and the files in it. It does not open the database.
func folder(cfg *config.Config, m machine) (out finding.List) {
	dir := cfg.DataDir
	st, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return finding.DataMissing.Alone(dir, "there is no data folder",
			m.start+" makes it; if there was one before, check data_dir in the configuration, and the disk it is on")
	case err != nil:
		return finding.NotLookedAt.Alone(dir, "the data folder cannot be read: "+reason(err), m.instead())
	case !st.IsDir():
		return nil // config reports this
	}
	if mode := st.Mode().Perm(); mode&config.OthersMay != 0 {
		out.Add(finding.DataOpen, dir, fmt.Sprintf("others can read or change the data folder (mode %04o)", mode), "chmod 700 "+dir)
	}
	switch err := m.may(dir); {
	case err == nil:
	case errors.Is(err, syscall.EROFS):
		out.Add(finding.DataUnwritable, dir, "the data folder lies on a file system that is mounted read-only",
			"mount it for writing, or choose another data_dir; Linux also mounts a failing disk read-only: `dmesg` tells")
	case m.guest != "":
		out.Add(finding.NotLookedAt, dir, "this user may not read the data folder", m.instead())
	default:
		out.Add(finding.DataUnwritable, dir, "the user "+self()+" cannot write to the data folder: "+reason(err),
			"if the server runs as "+self()+", `sudo chown -R "+self()+" "+dir+"` gives the folder to that user")
	}
	out = append(out, space(cfg, m)...)
	db, err := os.Stat(cfg.Database())
	if err != nil {
		return out
	}
	if mode := db.Mode().Perm(); mode&config.OthersMay != 0 {
		out.Add(finding.DatabaseOpen, cfg.Database(), fmt.Sprintf("others can read or change the database (mode %04o)", mode), "chmod 600 "+cfg.Database())
	}
	if cfg.Cluster.On() {
		for _, path := range cluster.AsideOf(cfg.Database()) {
			out.Add(finding.FileAside, path, "a database that PostgreSQL's log did not continue was set aside",
				"look at the server's log of that moment for the reason; delete the file when you need nothing of it")
		}
	}
	found := key(cfg.Vault, m)
	if st, err := os.Stat(cfg.Vault.KeyFile); len(found) == 0 && err == nil && cfg.Vault.KeyFile == cfg.OwnKey() && st.Mode().Perm()&config.OthersMay != 0 {
		found.Add(finding.KeyOpen, cfg.OwnKey(), fmt.Sprintf("others can read or change the vault's key (mode %04o)", st.Mode().Perm()), "chmod 600 "+cfg.OwnKey())
	}
	return append(out, found...)
}

// self returns the name of the user who runs this process.
func self() string {
	id := strconv.Itoa(os.Geteuid())
	if u, err := user.LookupId(id); err == nil {
		return u.Username
	}
	return id
}

// reason returns the system's error without the path.
func reason(err error) string { return config.Reason(err).Error() }

// Meanwhile returns the end of a fix for a full disk: how to let another node lead until there is room. It is empty if
// this machine is alone.
func Meanwhile(cfg *config.Config) string {
	if !cfg.Cluster.On() {
		return ""
	}
	return "; until then another node can lead: `hermes-connector cluster move " + cfg.Shard + " NODE`"
}

// space returns the findings about the file system of the data folder: its kind, and its free space.
func space(cfg *config.Config, m machine) (out finding.List) {
	dir := cfg.DataDir
	d, err := m.disk(dir)
	if err != nil {
		return finding.NotLookedAt.Alone(dir, "the free space on its disk is not known: "+err.Error(), "look with `df "+dir+"`")
	}
	switch d.kind {
	case 0x01021994, 0x858458f6: // tmpfs, ramfs
		out.Add(finding.DataInMemory, dir, "the data folder lies in memory (tmpfs)", "choose a data_dir on a disk; in a container, mount a volume there")
	case 0x6969, 0xff534d42, 0xfe534d42, 0x517b, 0x01021997, 0x00c36400, 0x5346414f: // nfs, cifs, smb2, smb, 9p, ceph, afs
		out.Add(finding.DataRemote, dir, "the data folder lies on a network file system", "choose a data_dir on a disk of this machine")
	}
	if d.free < diskIsLow {
		out.Add(finding.DiskLow, dir, fmt.Sprintf("%d MB are free on its disk", d.free>>20), "make room there: 200 MB should be free"+Meanwhile(cfg))
	}
	if d.inodes > 0 && d.left < inodesLow {
		out.Add(finding.InodesOut, dir, fmt.Sprintf("its disk has room for only %d more files", d.left), "remove files there: `df -i "+dir+"` shows how many there are")
	}
	return out
}

// key returns the findings about the file of the vault's key. It does not find out whether the key fits the database.
func key(v config.Vault, m machine) finding.List {
	if !v.Passphrase.IsZero() {
		return nil
	}
	return ofVault(v, m, vault.Try(v.Key()))
}

// ofVault turns an error of the vault into a finding.
func ofVault(v config.Vault, m machine, err error) finding.List {
	about := v.KeyFile
	switch {
	case !v.Passphrase.IsZero():
		about = "the passphrase"
	case v.Credential != "":
		about = "credential " + v.Credential
	}
	const copyBack = "put your copy of it back; without a copy, `hermes-connector help backup` says what you can do"
	switch {
	case err == nil:
		return nil
	case errors.Is(err, vault.ErrKeyLost):
		return finding.KeyLost.Alone(about, "the vault's key is missing", copyBack)
	case errors.Is(err, vault.ErrKeyGarbage):
		return finding.KeyGarbage.Alone(about, "this is not a key: it is truncated, or something else", copyBack)
	case errors.Is(err, vault.ErrKeyRefused):
		return finding.KeyOpen.Alone(about, "others can read or change the vault's key, or it is not a plain file", "chmod 600 "+about)
	case errors.Is(err, vault.ErrWrongKey):
		return finding.KeyWrong.Alone(about, "the database was sealed with another key", "put this database's own key back beside it")
	case errors.Is(err, fs.ErrPermission):
		return finding.NotLookedAt.Alone(about, "this user may not read the vault's key", m.instead())
	}
	return finding.KeyGarbage.Alone(about, err.Error(), copyBack)
}
