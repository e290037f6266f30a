package loopback

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hermes-connector/hermes-connector/relay"
)

// managersFile names, in the folder of a configured bot, who manages what: a line PERSON@CHAT or
// PERSON@SCOPE/ each. It is read for every question.
const managersFile = "managers"

// manager is somebody who decides who reads a chat, or all chats of a scope.
type manager struct {
	user relay.UserID
	chat relay.ChatID // "park/" is the scope park
}

// Appoint makes user the manager of a shared chat, or with "park/" of the scope park and all its chats.
func (n *Network) Appoint(chat relay.ChatID, user relay.UserID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.managers = append(n.managers, manager{user, chat})
}

// CanManage reports whether user was made the manager of the place, by Appoint or in the file.
func (p *Platform) CanManage(_ context.Context, place relay.Place, user relay.UserID) (bool, error) {
	if _, direct := directUser(place.Chat); direct || place.Chat == "" && place.Scope == "" {
		return false, nil
	}
	if scope, _ := scopeOf(place.Chat); place.Chat != "" && scope != place.Scope {
		return false, nil // there is no such chat
	}
	p.net.mu.Lock()
	all := slices.Clone(p.net.managers)
	p.net.mu.Unlock()
	if p.file != nil {
		more, err := p.file.managers()
		if err != nil {
			return false, fmt.Errorf("managers: %w", err)
		}
		all = append(all, more...)
	}
	return slices.ContainsFunc(all, func(m manager) bool {
		return m.user == user && (m.chat == place.Chat || place.Scope != "" && m.chat == relay.ChatID(place.Scope)+"/")
	}), nil
}

// managers reads the file; one that is not there names nobody.
func (f *follower) managers() ([]manager, error) {
	text, err := os.ReadFile(filepath.Join(f.dir, managersFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []manager
	for line := range strings.Lines(string(text)) {
		if user, chat, ok := strings.Cut(strings.TrimSpace(line), "@"); ok && chat != "" {
			out = append(out, manager{relay.UserID(user), relay.ChatID(chat)})
		}
	}
	return out, nil
}
