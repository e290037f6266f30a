package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hermes-connector/hermes-connector/platforms/webhook"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/files"
)

// secretLeftovers matches the temporary files in which secrets are written before they get their name.
const secretLeftovers = ".webhook-secret-*"

func newWebhookCmd(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "secret FILE",
		Short: "Make the secret with which the callers of a web hook sign",
		Long: `Writes a new secret into FILE (mode 0600), which must not exist yet, and prints it once, for the program
that calls the hook. With --add the secret is added to FILE: all secrets in it are accepted, and the first signs the
answers. So you can give callers the new secret before you remove the old one.`,
		Args: cobra.ExactArgs(1),
	}
	add := c.Flags().Bool("add", false, "add a secret to those in FILE")
	c.RunE = func(_ *cobra.Command, args []string) error {
		secret := webhook.NewSecret()
		if err := writeSecret(args[0], secret, *add); err != nil {
			return err
		}
		a.say("hermes-connector reload makes a running server use it.")
		return a.print(false, nil, func(w io.Writer) { _, _ = fmt.Fprintln(w, secret.RevealString()) })
	}
	return group("webhook", "Make the secrets of web hooks", c)
}

// writeSecret makes the file of a secret, or adds one to it.
func writeSecret(path string, secret relay.Secret, add bool) error {
	var before string
	if add {
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if before = string(raw); before != "" && !strings.HasSuffix(before, "\n") {
			before += "\n"
		}
	}
	fill := func(f *os.File) error {
		_, err := f.WriteString(before + secret.RevealString() + "\n")
		return err
	}
	if add {
		return files.Aside(path, secretLeftovers, func(f *os.File) error {
			files.Give(f, path)
			return fill(f)
		}, func(temp string) error { return files.Replace(temp, path, "") })
	}
	err := files.Create(path, secretLeftovers, fill)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s exists: add a secret to it with --add, or give another name", path)
	}
	return err
}
