package cli

import (
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/hermes-connector/hermes-connector/cli/admin"
	"github.com/hermes-connector/hermes-connector/relay/manage"
)

func newAuditCmd(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "audit [NAME]", Short: "Show who changed what, and when", Args: cobra.MaximumNArgs(1), ValidArgsFunction: a.completeGateways,
		Long: "Shows the newest changes, newest last: of one gateway or instance, or of all. Of each tenant the newest 10,000 are kept, of which 2,000 are one credential's.",
	}
	limit := c.Flags().Int("limit", 100, "show so many; 0 shows all")
	args := func(pos []string) (manage.AuditQuery, error) {
		n, err := nameArg(pos)
		return manage.AuditQuery{Name: n.Name, Limit: *limit}, err
	}
	return asking(a, c, admin.Audit, args, func(w io.Writer, _ manage.AuditQuery, all []manage.AuditRow) {
		head := []string{"AT", "WHO", "ACTION", "TENANT", "INSTANCE", "GATEWAY", "DETAIL"}
		list(a, w, all, "Nothing was changed.", head, func(r manage.AuditRow) []string {
			who := string(r.ActorKind)
			if r.Actor != "" {
				who += " " + r.Actor
			}
			return []string{
				r.At.Local().Format(time.DateTime), who, r.Action, dash(r.Tenant), dash(r.Instance), dash(r.Gateway), dash(r.Detail),
			}
		})
	})
}
