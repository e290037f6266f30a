package doctor

import (
	"context"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/hermes-connector/hermes-connector/cli/admin"
	"github.com/hermes-connector/hermes-connector/cli/config"
	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/finding"
	"github.com/hermes-connector/hermes-connector/relay/manage"
	"github.com/hermes-connector/hermes-connector/relay/ops"
)

// foldersOfOthers finds running servers of this program with another database than ours. It returns, by their data
// folders, a text that names the process.
func foldersOfOthers(proc, database string) map[string]string {
	out := make(map[string]string)
	for _, p := range processes(proc, serves) {
		if slices.Contains(p.open, database) { // our own server, whose further open databases are those of other shards
			continue
		}
		for _, path := range p.open { // there are none for another user's process, and for one that has just begun
			if filepath.Base(path) == filepath.Base(database) {
				out[filepath.Dir(path)] = ": " + p.String()
			}
		}
	}
	return out
}

// others returns the findings about other servers, which it finds by their processes and by the folders in o.Others,
// and about those of our bots that they host as well. server is the server that answered; nil: none did.
func (o *Options) others(ctx context.Context, server *running) (out finding.List) {
	folders := foldersOfOthers(o.machine.proc, o.Config.Database())
	for _, folder := range o.Others {
		if _, known := folders[folder]; !known {
			folders[folder] = ""
		}
	}
	var ours []platforms.Bot
	if len(folders) > 0 && len(o.Config.Bots) > 0 {
		if all, err := o.Bots(); err == nil {
			ours = all[:min(len(all), len(o.Config.Bots))] // without the bot of the pages, which every server has
		}
	}
	names := slices.Sorted(maps.Keys(folders))
	both := make([][]string, len(names)) // for each folder, the bots that its server and ours host
	var asked sync.WaitGroup
	for n, folder := range names { // side by side, so that a server that does not answer takes no time from the others
		asked.Go(func() { both[n] = shared(ctx, folder, ours, server) })
	}
	asked.Wait()
	said := make(map[string]bool) // processes that were reported: one may have a folder for each of many shards
	for n, folder := range names {
		runs := "another server runs with the data folder " + folder + folders[folder]
		if len(both[n]) > 0 {
			out.Add(finding.SharedBot, folder, runs+", and hosts "+strings.Join(both[n], ", ")+" too",
				"remove the bot from one of the two configurations, or stop that server")
			continue
		}
		if process := folders[folder]; process == "" || !said[process] {
			said[process] = true
			out.Add(finding.OtherServer, folder, runs, "commands for that server need --data-dir "+folder)
		}
	}
	return out
}

// shared returns those of our bots that the server of another data folder hosts, too; none if it does not answer. In a
// cluster that server may be a node that passes its commands on to server: such a node is no second host.
func shared(ctx context.Context, folder string, ours []platforms.Bot, server *running) (both []string) {
	if len(ours) == 0 {
		return nil
	}
	c, err := admin.Dial(ctx, (&config.Config{DataDir: folder}).Socket())
	if err != nil {
		return nil
	}
	if server != nil && server.o.Config.Cluster.On() {
		if d, err := admin.Ask(ctx, c, ops.Diagnose, manage.Look{Offline: true}); err == nil && d.Run == server.first.Run {
			return nil
		}
	}
	st, _ := admin.Ask(ctx, c, ops.Status, struct{}{})
	for _, p := range ours {
		if slices.ContainsFunc(st.Bots, func(b manage.BotStatus) bool { return relay.Bot{Platform: b.Platform, ID: b.ID} == p.ID() }) {
			both = append(both, p.ID().String())
		}
	}
	return both
}
