package config

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const nodeOfShards = `
listen = "127.0.0.1:8790"
data_dir = "data"
public_url = "https://relay.example.net"
[vault]
key_file = "vault.key"
[cluster]
dsn_file = "dsn"
node = "pi1"
`

// loadShards loads a node's configuration with these tables, and these files of shards beside it.
func loadShards(t *testing.T, tables string, files map[string]string) (*Config, error) {
	t.Helper()
	dir, env := home(t)
	for name, secret := range map[string]string{"dsn": "postgres://nas/one", "b.dsn": "postgres://nas/two", "vault.key": strings.Repeat("ab", 32), "good.token": goodToken} {
		write(t, filepath.Join(dir, name), secret, 0o600)
	}
	for name, content := range files {
		write(t, filepath.Join(dir, name), content, 0o644)
	}
	write(t, fileName, tables, 0o644)
	return load("", env)
}

func shardTable(name string) string {
	return "[[shard]]\nname = \"" + name + "\"\nconfig = \"" + name + ".toml\"\n"
}

func TestShards(t *testing.T) {
	cfg, err := loadShards(t, nodeOfShards+shardTable("team-a")+"weight = 2\n"+shardTable("team-b")+"dsn_file = \"b.dsn\"\n", map[string]string{
		"team-a.toml": "[[bots]]\nplatform = \"pigeon\"\ntoken_file = \"good.token\"\n",
		"team-b.toml": "public_url = \"https://b.example.net\"\n[backup]\nnightly = false\n",
	})
	if err != nil {
		t.Fatal(err)
	}
	type shard struct {
		Name, Prefix, URL, Data, Backups, DSN, Node string
		Weight                                      float64
		Bots                                        int
	}
	var got []shard
	data := cfg.DataDir
	for _, s := range cfg.Led() {
		c := s.Config
		below := func(dir string) string { rest, _ := filepath.Rel(data, dir); return rest }
		got = append(got, shard{c.Shard, c.Prefix, c.PublicURL, below(c.DataDir), below(c.Backup.Dir), c.Cluster.DSN.RevealString(), c.Cluster.Node, s.Weight, len(c.Bots)})
		if c.Listen != cfg.Listen {
			t.Errorf("shard %s listens at %s", c.Shard, c.Listen)
		}
	}
	want := []shard{
		{"team-a", "/s/team-a", "https://relay.example.net/s/team-a", "shards/team-a", "shards/team-a/snapshots", "postgres://nas/one", "pi1", 2, 1},
		{"team-b", "/s/team-b", "https://b.example.net", "shards/team-b", "shards/team-b/snapshots", "postgres://nas/two", "pi1", 1, 0},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("shards (-want +got):\n%s", diff)
	}
}

func TestFaultsOfShards(t *testing.T) {
	bot := "[[bots]]\nplatform = \"pigeon\"\ntoken_file = \"good.token\"\n"
	for name, tc := range map[string]struct {
		tables string
		files  map[string]string
		want   []string
	}{
		"without a cluster": {
			shardTable("a"), map[string]string{"a.toml": ""},
			[]string{"connector.toml:1: shard: does nothing without dsn_file under [cluster]"},
		},
		"a bot of the node": {
			nodeOfShards + bot + shardTable("a"), map[string]string{"a.toml": ""},
			[]string{"connector.toml: bots belong in the files of the shards, since there are [[shard]] tables"},
		},
		"what belongs in their files": {
			nodeOfShards + "[backup]\nnightly = false\n" + shardTable("a"), map[string]string{"a.toml": ""},
			[]string{"connector.toml:11: backup.nightly: belongs in the files of the shards, since there are [[shard]] tables"},
		},
		"names, files, weights": {
			nodeOfShards + shardTable("a") + shardTable("a") + shardTable("B") + shardTable("c") + "weight = 0\nwieght = 1\n" + "[[shard]]\nname = \"d\"\n", map[string]string{"a.toml": "", "b.toml": ""},
			[]string{
				"connector.toml:14: shard.name: another shard has that name",
				"connector.toml:17: shard.name: want at most 40 small letters, digits and -, the first no -",
				"connector.toml:21: shard.config: no such file or directory",
				"connector.toml:22: shard.weight: want a whole number from 1 to 1000",
				"connector.toml:23: shard.wieght: unknown key (did you mean weight?)",
				"connector.toml:24: shard: config is missing",
			},
		},
		"what a node has for all, and shards of a shard": {
			nodeOfShards + shardTable("a"), map[string]string{"a.toml": "listen = \"127.0.0.1:1\"\n" + shardTable("b")},
			[]string{
				"a.toml:1: listen: is the same for all shards: write it in connector.toml",
				"a.toml:2: shard: a shard has no shards: write it in connector.toml",
			},
		},
		"one bot, one address in two": {
			nodeOfShards + shardTable("a") + shardTable("b"),
			map[string]string{"a.toml": "public_url = \"https://t.example.net\"\n" + bot, "b.toml": "public_url = \"https://t.example.net\"\n" + bot},
			[]string{
				"b.toml: shard a has that pigeon bot, too: one bot can be hosted once",
				"b.toml:1: public_url: shard a has that address, too",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := loadShards(t, tc.tables, tc.files)
			faults, ok := errors.AsType[Faults](err)
			if !ok {
				t.Fatalf("Load() = %v, want Faults", err)
			}
			dir, _ := filepath.Abs(".")
			if diff := cmp.Diff(tc.want, strings.Split(strings.ReplaceAll(faults.Error(), dir+"/", ""), "\n")); diff != "" {
				t.Errorf("faults (-want +got):\n%s", diff)
			}
		})
	}
}
