package config

import (
	"errors"
	"time"

	"filippo.io/age"
)

func setCooldown(l *loader, v string) (err error) {
	l.cfg.Wake.Cooldown, err = parseAge(v)
	if err == nil && (l.cfg.Wake.Cooldown < time.Second || l.cfg.Wake.Cooldown > 30*time.Minute) {
		err = errors.New("want a span from 1s to 30m")
	}
	return err
}

func setRecipient(l *loader, v string) error {
	if _, err := age.ParseX25519Recipient(v); err != nil {
		// What stands here may be the secret key, pasted into the wrong place: it is not repeated.
		return errors.New("want an age recipient: the line that begins with age1, as age-keygen prints it; never the secret key")
	}
	l.cfg.Backup.Recipient = v
	return nil
}
