package vault

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/hermes-connector/hermes-connector/relay"
)

// Key is the source of the wrapping key, which encrypts the vault's data key: FileKey, CredentialKey or PassphraseKey.
type Key interface {
	origin() origin
	// Name returns the words for the key in messages to the operator.
	Name() string
	// create returns the wrapping key for a new vault, and the parameters that must be stored to get it again; nil:
	// none.
	create() (relay.Secret, *kdf, error)
	// open returns the wrapping key of a vault that exists, from the stored parameters. It makes no file.
	open(stored *kdf) (relay.Secret, error)
}

// origin is how a wrapping key is made. A key file and a credential have the same origin, since a key can be moved from
// one to the other.
type origin string

const (
	originKey        origin = "key"        // 256 random bits kept somewhere
	originPassphrase origin = "passphrase" // stretched from a passphrase
)

func (o origin) noun() string {
	switch o {
	case originKey:
		return "a key file or credential"
	case originPassphrase:
		return "a passphrase"
	}
	return "a key of an origin that this program does not know"
}

// ifGone ends messages about a key that may be lost.
const ifGone = "if it is gone for good, the gateways' secrets and the codes given out are lost, and people, chats and waiting messages " +
	"are not: hermes-connector vault rekey --lost makes a new key; then hermes-connector gateway rotate NAME gives a gateway a new secret"

// kdf has the argon2id parameters with which a passphrase was stretched. They are chosen once, when the vault is made;
// after that every machine uses the stored ones.
type kdf struct {
	Time    uint32 `json:"t"`
	Memory  uint32 `json:"m"` // KiB
	Threads uint8  `json:"p"`
	Salt    []byte `json:"salt"`
}

// keyText is the size of a key file or credential, in bytes: the key in hexadecimal and a newline. Hexadecimal, because
// a person can type it in again, and a file that a power cut filled with zeros is not mistaken for a key.
const keyText = 2*keySize + 1

// CredentialKey returns the key in a systemd credential: the file name in dir, which is $CREDENTIALS_DIRECTORY. It
// holds 64 hexadecimal digits and is never made by this program.
func CredentialKey(dir, name string) Key { return credentialKey{dir, name} }

type credentialKey struct{ dir, file string }

func (credentialKey) origin() origin { return originKey }
func (k credentialKey) Name() string { return "credential " + k.file }

func (k credentialKey) create() (relay.Secret, *kdf, error) {
	s, err := k.open(nil)
	return s, nil, err
}

func (k credentialKey) open(*kdf) (relay.Secret, error) {
	switch {
	case k.dir == "":
		return relay.Secret{}, fmt.Errorf("%w: CREDENTIALS_DIRECTORY is not set, so there is no credential %s; "+
			"name it in the unit with LoadCredential= or LoadCredentialEncrypted=", ErrKeyLost, k.file)
	case !filepath.IsLocal(k.file) || filepath.Base(k.file) != k.file:
		return relay.Secret{}, fmt.Errorf("%w: credential name %q is no plain file name", ErrKeyRefused, k.file)
	}
	// The permissions are not checked: systemd guards the folder, and grants access by an ACL, which looks like group
	// permissions.
	f, err := os.Open(filepath.Join(k.dir, k.file))
	if errors.Is(err, fs.ErrNotExist) {
		return relay.Secret{}, fmt.Errorf("%w: there is no credential %s in CREDENTIALS_DIRECTORY; "+
			"name it in the unit with LoadCredential= or LoadCredentialEncrypted= (make one with: openssl rand -hex 32)", ErrKeyLost, k.file)
	}
	if err != nil {
		return relay.Secret{}, fmt.Errorf("%s: %w", k.Name(), err)
	}
	defer f.Close()
	return readKey(f, k.Name())
}

// readKey reads the text of a key, with or without the newline. Its errors call the key name, and do not quote the
// text.
func readKey(r io.Reader, name string) (relay.Secret, error) {
	text, err := io.ReadAll(io.LimitReader(r, keyText+1))
	if err != nil {
		return relay.Secret{}, fmt.Errorf("%s: %w", name, err)
	}
	refuse := func(what string) (relay.Secret, error) {
		return relay.Secret{}, fmt.Errorf("%w: %s %w: %s, want %d hexadecimal digits. Put your copy of it back; %s",
			ErrKeyRefused, name, ErrKeyGarbage, what, 2*keySize, ifGone)
	}
	digits := bytes.TrimSuffix(text, []byte("\n"))
	switch {
	case len(digits) == 0:
		return refuse("it is empty")
	case len(text) > keyText, len(digits) > 2*keySize:
		return refuse("it is too long")
	case len(digits) < 2*keySize:
		return refuse(fmt.Sprintf("it has %d bytes", len(digits)))
	}
	key := make([]byte, keySize)
	if _, err := hex.Decode(key, digits); err != nil {
		return refuse("it contains other characters")
	}
	return relay.NewSecret(key), nil
}

// Try returns nil if a key file or a credential can be read and holds a key, and otherwise why not: errors wrap
// ErrKeyLost or ErrKeyRefused, or are the system's. Only Existing shows whether it is the key of a database.
func Try(k Key) error {
	_, err := k.open(nil)
	return err
}
