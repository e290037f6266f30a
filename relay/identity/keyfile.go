package identity

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/hermes-connector/hermes-connector/store/files"
)

// lookEvery is the least time between two looks at the key file while its keys fit.
const lookEvery = 5 * time.Second

// keyFile holds the keys in a file, as they were when it was last usable.
type keyFile struct{ *files.Watched[*keySet] }

// openKeyFile reads the file at path. The error names the file.
func openKeyFile(path string, now func() time.Time, log *slog.Logger) (keyFile, error) {
	w, err := files.Watch([]string{path}, now, func(texts [][]byte) (*keySet, error) {
		set, err := decodeKeys(texts[0])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		return set, nil
	}, func(err error) {
		log.Warn("the key file cannot be used; the last good keys stay in use", "err", err)
	})
	if err != nil {
		return keyFile{}, fmt.Errorf("jwks_file: %w", err)
	}
	if len(w.Get(lookEvery).list) == 0 {
		return keyFile{}, fmt.Errorf("jwks_file: %s: no RSA signing key of %d bits or more", path, minKeyBits)
	}
	return keyFile{w}, nil
}

func (k keyFile) current(context.Context) (*keySet, error) { return k.Get(lookEvery), nil }

// newer reads a changed file at once, without the pause lookEvery: a look at it costs next to nothing, and a token may
// be signed with a new key as soon as the file has the key.
func (k keyFile) newer(context.Context, *keySet) *keySet { return k.Get(0) }
