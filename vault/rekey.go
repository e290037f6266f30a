package vault

import (
	"encoding/json"
	"maps"

	"github.com/hermes-connector/hermes-connector/relay"
)

// Renewed returns a vault with a new data key. It makes the same MACs as v for the purposes in keep, and opens nothing
// that v sealed.
func (v *Vault) Renewed(keep ...string) *Vault {
	next := New()
	next.kept = make(map[string][]byte)
	maps.Copy(next.kept, v.kept)
	for _, purpose := range keep {
		next.kept[purpose] = v.macKey(purpose)
	}
	return next
}

// The kept MAC keys are stored in the same envelope as the wrapped data key, sealed by the vault under this bucket and
// key.
const keptBucket, keptPlace = "vault", "kept"

func (v *Vault) sealKept() []byte {
	text, err := json.Marshal(v.kept)
	if err != nil {
		panic("vault: " + err.Error()) // a map of bytes
	}
	return v.Seal(keptBucket, keptPlace, relay.NewSecret(text))
}

// unsealKept sets the kept MAC keys from sealed; ok is false if sealed is damaged, or holds none.
func (v *Vault) unsealKept(sealed []byte) (ok bool) {
	text, err := v.Unseal(keptBucket, keptPlace, sealed)
	if err != nil || json.Unmarshal(text.Reveal(), &v.kept) != nil {
		return false
	}
	for _, k := range v.kept {
		if len(k) != keySize {
			return false
		}
	}
	return len(v.kept) > 0
}
