package vault

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"os"
	"runtime/debug"
	"strconv"

	"golang.org/x/crypto/argon2"

	"github.com/hermes-connector/hermes-connector/relay"
)

const (
	saltSize = 16 // bytes
	// smallHost is the memory below which a host gets the parameters that spare it, in KiB.
	smallHost = 1 << 20
	// The largest stored parameters that this program accepts, the memory in KiB; larger ones must be damage.
	maxTime, maxMemory = 64, 1 << 20
)

// PassphraseKey returns a key stretched from a passphrase with argon2id. The passphrase must not be empty.
func PassphraseKey(passphrase relay.Secret) Key {
	return passphraseKey{passphrase, "/proc/meminfo"}
}

type passphraseKey struct {
	passphrase relay.Secret
	meminfo    string // the path of Linux's meminfo; if there is no such file, the host counts as large enough
}

func (passphraseKey) origin() origin { return originPassphrase }
func (passphraseKey) Name() string   { return "the passphrase" }

func (k passphraseKey) create() (relay.Secret, *kdf, error) {
	p := &kdf{Time: 3, Memory: 64 << 10, Threads: 4, Salt: make([]byte, saltSize)}
	if total, ok := memTotal(k.meminfo); ok && total < smallHost {
		p.Time, p.Memory, p.Threads = 4, 19<<10, 1
	}
	_, _ = rand.Read(p.Salt) // never fails: it ends the process instead
	s, err := k.open(p)
	return s, p, err
}

func (k passphraseKey) open(p *kdf) (relay.Secret, error) {
	if k.passphrase.IsZero() {
		return relay.Secret{}, fmt.Errorf("%w: the passphrase is empty", ErrKeyRefused)
	}
	if p == nil || p.Time < 1 || p.Time > maxTime || p.Threads < 1 || p.Memory > maxMemory || len(p.Salt) < saltSize {
		return relay.Secret{}, fmt.Errorf("%w: its argon2 parameters make no sense; restore the database from a backup", ErrDamaged)
	}
	key := argon2.IDKey(k.passphrase.Reveal(), p.Salt, p.Time, p.Memory, p.Threads, keySize)
	debug.FreeOSMemory() // an idle process would otherwise keep the memory that argon2 used
	return relay.NewSecret(key), nil
}

// memTotal returns the host's memory in KiB, by Linux's meminfo.
func memTotal(path string) (uint64, bool) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, false
	}
	for line := range bytes.Lines(text) {
		f := bytes.Fields(line)
		if len(f) >= 2 && string(f[0]) == "MemTotal:" {
			n, err := strconv.ParseUint(string(f[1]), 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}
