package store

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/capability"
	"github.com/hermes-connector/hermes-connector/store/rekey"
	"github.com/hermes-connector/hermes-connector/testdata/must"
	"github.com/hermes-connector/hermes-connector/vault"
)

// vaultsOf are two vaults, and a gateway per name, and a capability of its, sealed by the first in a new database at path.
func vaultsOf(t *testing.T, path string, names ...relay.InstanceID) (db *DB, former, next *vault.Vault) {
	t.Helper()
	former, next = vault.New(), vault.New()
	db = reopen(t, path, Options{})
	for _, n := range names {
		g := Gateway{ID: relay.GatewayID(n), DeliveryKey: former.Seal("gateways", string(n)+"/delivery", words(n))}
		for _, s := range []string{"s1", "s2"} {
			g.Secrets = append(g.Secrets, GatewaySecret{ID: s, Sealed: former.Seal("gateways", string(n)+"/"+s, words(n))})
		}
		must.Succeed(t, db.Enroll(ctxOf(t), nil, g, Instance{ID: n, Tenant: "t"}))
		a := acceptFor(event("event of "+string(n), 300), n)
		c := capabilityOf("event of "+string(n), n, time.Now())
		bucket, key := c.Place()
		c.Sealed = former.Seal(bucket, key, words(n))
		a.Items[0].Capability = c
		if _, err := db.Accept(ctxOf(t), a); err != nil {
			t.Fatal(err)
		}
	}
	must.Succeed(t, db.PutBlob(ctxOf(t), "vault", []byte("former")))
	return db, former, next
}

func words(n relay.InstanceID) relay.Secret { return relay.NewSecret([]byte("secret of " + n)) }

func gatewayValues(g *Gateway) []rekey.Value {
	all := []rekey.Value{{Bucket: "gateways", Key: string(g.ID) + "/delivery", Bytes: &g.DeliveryKey}}
	for i := range g.Secrets {
		all = append(all, rekey.Value{Bucket: "gateways", Key: string(g.ID) + "/" + g.Secrets[i].ID, Bytes: &g.Secrets[i].Sealed})
	}
	return all
}

func resealer(former, next *vault.Vault) rekey.Sealer {
	return func(bucket, key string, sealed []byte) ([]byte, error) {
		plain, err := former.Unseal(bucket, key, sealed)
		if err != nil {
			return nil, err
		}
		return next.Seal(bucket, key, plain), nil
	}
}

// sealedBy says which vault everything in db is sealed by: "former" or "next", as the blob says too.
func sealedBy(t *testing.T, db *DB, former, next *vault.Vault) string {
	t.Helper()
	blob, _, err := db.Blob(ctxOf(t), "vault")
	must.Succeed(t, err)
	v := map[string]*vault.Vault{"former": former, "next": next}[string(blob)]
	all, err := db.Gateways(ctxOf(t))
	if err != nil || v == nil {
		t.Fatalf("blob %q, %v", blob, err)
	}
	for _, g := range all {
		for _, s := range gatewayValues(&g) {
			got, err := v.Unseal(s.Bucket, s.Key, *s.Bytes)
			if err != nil || got.RevealString() != words(g.Instance).RevealString() {
				t.Errorf("blob %s, value %s: %v", blob, s.Key, err)
			}
		}
	}
	held, err := db.Capabilities.Of(ctxOf(t), "")
	if err != nil || len(held) < len(all) {
		t.Errorf("%d capabilities of %d gateways, %v", len(held), len(all), err)
	}
	for _, c := range held {
		bucket, key := c.Place()
		if got, err := v.Unseal(bucket, key, c.Sealed); err != nil || got.RevealString() != words(c.Instance).RevealString() {
			t.Errorf("blob %s, capability %s: %v", blob, key, err)
		}
	}
	return string(blob)
}

// sealedKinds is all that vaultsOf seals.
func sealedKinds() []rekey.Kind {
	return []rekey.Kind{rekey.Records(BucketGateways, false, gatewayValues), capability.Sealed()}
}

func TestReseal(t *testing.T) {
	path := filepath.Join(t.TempDir(), "test.db")
	db, former, next := vaultsOf(t, path, "i1", "i2", "i3")
	before := read(t, path)
	n, err := db.Reseal(ctxOf(t), "vault", []byte("next"), resealer(former, next), sealedKinds()...)
	if err != nil || n.Records != 6 || sealedBy(t, db, former, next) != "next" {
		t.Fatalf("Reseal = %+v, %v", n, err)
	}
	want := map[string]string{"complete": "next", "data pages only": "former", "half of the data pages": "former", "the meta page was half written": "former"}
	for name, content := range stoppedIn(before, read(t, path)) {
		if got := sealedBy(t, openCopy(t, content), former, next); got != want[name] {
			t.Errorf("stopped with %s: sealed by %s, want %s", name, got, want[name])
		}
	}
}

// TestResealIsCutAtEveryPage: whichever pages of the commit the disk got, it is the former database or the new one.
func TestResealIsCutAtEveryPage(t *testing.T) {
	const page = 4096
	path := filepath.Join(t.TempDir(), "test.db")
	db, former, next := vaultsOf(t, path, "i1", "i2", "i3", "i4")
	before := read(t, path)
	if _, err := db.Reseal(ctxOf(t), "vault", []byte("next"), resealer(former, next), sealedKinds()...); err != nil {
		t.Fatal(err)
	}
	after := read(t, path)
	was := append(append([]byte(nil), before...), make([]byte, max(0, len(after)-len(before)))...)
	seen := make(map[string]int)
	for cut := 2 * page; cut <= len(after); cut += page { // data pages first, then the sync, then the meta page
		if cut < len(after) && bytes.Equal(after[cut-page:cut], was[cut-page:cut]) {
			continue
		}
		content := append(append(append([]byte(nil), was[:2*page]...), after[2*page:cut]...), was[cut:]...)
		seen[sealedBy(t, openCopy(t, content), former, next)]++
	}
	seen[sealedBy(t, openCopy(t, after), former, next)]++
	if seen["next"] != 1 || seen["former"] < 2 {
		t.Errorf("%v, want the new one only when all of it was written", seen)
	}
}

func TestResealIsRefusedByName(t *testing.T) {
	db, former, next := vaultsOf(t, filepath.Join(t.TempDir(), "test.db"), "i1", "i2")
	spoil := func(g *Gateway, _ *Instance) error {
		g.Secrets[1].Sealed[40] ^= 1
		return nil
	}
	must.Succeed(t, db.UpdateGateway(ctxOf(t), nil, "i2", spoil))
	_, err := db.Reseal(ctxOf(t), "vault", []byte("next"), resealer(former, next), sealedKinds()...)
	if !errors.Is(err, vault.ErrUnseal) || !strings.Contains(fmt.Sprint(err), "i2/s2") {
		t.Errorf("Reseal: %v, want the record named", err)
	}
	blob, _, err := db.Blob(ctxOf(t), "vault")
	g, err2 := Only(db.Gateways(ctxOf(t), "i1"))
	if err := errors.Join(err, err2); err != nil || string(blob) != "former" {
		t.Fatalf("the vault is %s, %v", blob, err)
	}
	if _, err := former.Unseal("gateways", "i1/s1", g.Secrets[0].Sealed); err != nil {
		t.Errorf("another record was changed: %v", err)
	}

	// Those that can be spared are dropped.
	n, err := db.Reseal(ctxOf(t), "vault", []byte("next"), resealer(former, next), rekey.Records(BucketGateways, true, gatewayValues), capability.Sealed())
	if err != nil || n.Records != 3 || n.Dropped != 1 {
		t.Errorf("Reseal = %+v, %v", n, err)
	}
	if sealedBy(t, db, former, next) != "next" {
		t.Error("the new vault is not in its place")
	}
}

// TestResealForgets: what Reseal replaced is gone from the file with the next Open, whether or not the process that
// replaced it was killed right after the commit.
func TestResealForgets(t *testing.T) {
	for name, kinds := range map[string][]rekey.Kind{"all anew": sealedKinds(), "another key only": nil} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "test.db")
			db, former, next := vaultsOf(t, path, "i1", "i2")
			again := resealer(former, next)
			if kinds == nil {
				again, next = nil, former
			}
			gone := [][]byte{[]byte("former")}
			all, err := db.Gateways(ctxOf(t))
			must.Succeed(t, err)
			for _, g := range all {
				for _, v := range gatewayValues(&g) {
					if kinds != nil {
						gone = append(gone, []byte(base64.StdEncoding.EncodeToString(*v.Bytes)))
					}
				}
			}
			if _, err := db.Reseal(ctxOf(t), "vault", []byte("next"), again, kinds...); err != nil {
				t.Fatal(err)
			}
			killed := read(t, path) // as kill -9 leaves it
			if n := present(killed, gone); n != len(gone) {
				t.Fatalf("%d of %d former values lie in the free pages: the test shows nothing", n, len(gone))
			}
			other := openCopy(t, killed)
			if n := present(read(t, other.path), gone); n != 0 || !other.Stats().Squeezed {
				t.Errorf("after the next start %d former values are in the file, %+v", n, other.Stats())
			}
			if sealedBy(t, other, former, next) != "next" {
				t.Error("what was sealed anew is not there")
			}
			must.Succeed(t, other.Close())
			if third := reopen(t, other.path, Options{}); third.Stats().Squeezed || third.Stats().Leftover {
				t.Error("it is done a second time")
			}
		})
	}
}

// TestALeftoverIsRemembered: as long as no copy can be made, what was replaced stays, is told, and is tried again.
func TestALeftoverIsRemembered(t *testing.T) {
	path := filepath.Join(t.TempDir(), "test.db")
	db, former, next := vaultsOf(t, path, "i1")
	if _, err := db.Reseal(ctxOf(t), "vault", []byte("next"), resealer(former, next), sealedKinds()...); err != nil {
		t.Fatal(err)
	}
	must.Succeed(t, db.Close())
	// No copy can be made beside a file whose name leaves no room for a longer one.
	long := filepath.Join(filepath.Dir(path), strings.Repeat("n", 250))
	must.Succeed(t, os.Rename(path, long))
	for range 2 {
		var log bytes.Buffer
		db := reopen(t, long, Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
		if st := db.Stats(); !st.Leftover || st.Squeezed || !strings.Contains(log.String(), "the next start tries again") {
			t.Errorf("%+v, log %s", st, &log)
		}
		must.Succeed(t, db.Close())
	}
	must.Succeed(t, os.Rename(long, path))
	if st := reopen(t, path, Options{}).Stats(); st.Leftover || !st.Squeezed {
		t.Errorf("with room again: %+v", st)
	}
}

// present counts those of all that are in content.
func present(content []byte, all [][]byte) (n int) {
	for _, one := range all {
		if bytes.Contains(content, one) {
			n++
		}
	}
	return n
}
