package server

import (
	"context"
	"crypto/ed25519"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"connectrpc.com/connect"

	"starling.dev/starling/api"
	apiv1 "starling.dev/starling/api/v1"
	"starling.dev/starling/api/v1/apiv1connect"
	"starling.dev/starling/api/v1/calls"
	"starling.dev/starling/crdt"
	"starling.dev/starling/oci"
	"starling.dev/starling/peer"
)

// Runtime is what the server needs of the container runtime.
type Runtime interface {
	Logs(ctx context.Context, podID, container string, o oci.LogOptions, each func(oci.LogLine) error) error
	Exec(ctx context.Context, podID, container string, e oci.ExecSpec) (uint32, error)
	Import(ctx context.Context, r io.Reader) ([]oci.Image, error)
	List(ctx context.Context) ([]oci.Image, error)
	// Export writes an image that this machine holds, or fails with oci.ErrNotHeld
	// before it has written anything.
	Export(ctx context.Context, ref string, w io.Writer) error
	// Discard removes one image, unless something needs it; Prune all that nothing needs.
	Discard(ctx context.Context, ref string) (oci.Image, error)
	Prune(ctx context.Context) ([]oci.Image, error)
	Usage(ctx context.Context) ([]oci.Usage, error)
	// ReadFiles writes a file or directory of a running container as a tar archive;
	// WriteFiles takes one.
	ReadFiles(ctx context.Context, podID, container, path string, w io.Writer) error
	WriteFiles(ctx context.Context, podID, container, path string, archive io.Reader) error
}

// Network is what the server needs of the machine's network.
type Network interface {
	State(ctx context.Context) (string, error)
	Findings(ctx context.Context) ([]*apiv1.Finding, error)
	Tunnels(ctx context.Context) (*apiv1.TunnelsResponse, error)
	Dial(ctx context.Context, podID string, port uint16) (net.Conn, error)
}

// Members calls the API of other members.
type Members interface {
	HTTPClient(id crdt.MachineID) *http.Client
}

// Config is what a server serves. All fields but the last are required.
type Config struct {
	Loop    *peer.Loop
	Runtime Runtime
	Network Network
	Members Members
	// Key signs what this machine states about the cluster's membership.
	Key ed25519.PrivateKey
	// Addresses are where newcomers reach this machine, "host:port".
	Addresses func() []string
	Logger    *slog.Logger
	// Programs are the foreign loops that attach. Optional: without it none can.
	Programs *Programs
}

// Server implements the service. It holds no state of its own but copies of answers.
type Server struct {
	apiv1connect.UnimplementedStarlingHandler
	cfg     Config
	answers *answers
	// member is true where the caller is another member, not a person on this machine.
	member bool
}

// New returns the server for the local socket.
func New(cfg Config) (*Server, error) {
	if cfg.Loop == nil || cfg.Runtime == nil || cfg.Network == nil || cfg.Members == nil || cfg.Addresses == nil || cfg.Logger == nil {
		return nil, errors.New("configure server: every field is required")
	}
	return &Server{cfg: cfg, answers: &answers{}}, nil
}

// ForMembers returns the server for other members.
func (s *Server) ForMembers() *Server { return &Server{cfg: s.cfg, answers: s.answers, member: true} }

// Handler returns the HTTP handler of the service.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	path, h := apiv1connect.NewStarlingHandler(s)
	mux.Handle(path, h)
	if !s.member {
		mux.HandleFunc("GET "+MetricsPath, s.metrics)
		mux.Handle("GET "+calls.Path, calls.Handler(s.methods()))
	}
	return mux
}

// view says whose view an answer is.
func view(c *peer.Core) *apiv1.View { return viewTo(c.View()) }

func viewTo(from peer.View) *apiv1.View {
	v := &apiv1.View{Machine: from.Machine, TimeMs: time.Now().UnixMilli()}
	for _, m := range from.Silent {
		v.Unreachable = append(v.Unreachable, m.Machine)
		if v.SilentSinceMs == nil {
			v.SilentSinceMs = map[string]int64{}
		}
		v.SilentSinceMs[m.Machine] = m.Since.UnixMilli()
	}
	return v
}

// read runs do on the core between two turns.
func (s *Server) read(ctx context.Context, do func(*peer.Core) *api.Error) error {
	var fault *api.Error
	if err := s.cfg.Loop.Query(ctx, func(c *peer.Core) { fault = do(c) }); err != nil {
		return wire(err)
	}
	if fault != nil {
		return wire(fault)
	}
	return nil
}

// locals refuses what only people on this machine may do.
func (s *Server) locals(what string) error {
	if !s.member {
		return nil
	}
	return wire(api.Errorf(api.Unauthorized, "%s is only done through a machine's own socket", what))
}

// wire gives an error the status that clients see, and its code as a detail.
func wire(err error) error {
	if err == nil {
		return nil
	}
	var known *connect.Error
	if errors.As(err, &known) {
		return passOn(known)
	}
	code := api.CodeOf(err)
	out := connect.NewError(status(code), err)
	out.Meta().Set(CodeHeader, code)
	return out
}

// messageOf is what an error says to a person, without the protocol's word for it.
func messageOf(err error) string {
	var known *connect.Error
	if errors.As(err, &known) {
		return known.Message()
	}
	return err.Error()
}

// CodeHeader carries the code of an error (api.Errorf) beside its message.
const CodeHeader = apiv1.CodeHeader

// passOn repeats what another machine answered: the code beside its message would be
// lost if its error were returned as it is.
func passOn(err *connect.Error) error {
	if !connect.IsWireError(err) {
		return err
	}
	out := connect.NewError(err.Code(), errors.New(err.Message()))
	if code := err.Meta().Get(CodeHeader); code != "" {
		out.Meta().Set(CodeHeader, code)
	}
	return out
}

func status(code string) connect.Code {
	switch code {
	case api.NotFound:
		return connect.CodeNotFound
	case api.AlreadyExists, api.NameTaken:
		return connect.CodeAlreadyExists
	case api.Invalid, api.SpecInvalid, api.TooLarge, api.AmbiguousRev, api.WrongOwner:
		return connect.CodeInvalidArgument
	case api.Conflict, api.SwitchRefused:
		return connect.CodeAborted
	case api.Unauthorized, api.TokenInvalid, api.TokenUsed, api.TokenExpired:
		return connect.CodePermissionDenied
	case api.TimedOut:
		return connect.CodeDeadlineExceeded
	case api.MachineUnreachable, api.MachineSilent, api.RuntimeUnavailable:
		return connect.CodeUnavailable
	case api.DiskFull:
		return connect.CodeResourceExhausted
	}
	return connect.CodeInternal
}

// noSuch says that an object is not there.
func noSuch(c *peer.Core, key api.Key) *api.Error {
	if name, run, earlier := strings.Cut(key.Name, "@"); earlier {
		key.Name = name
		return api.Errorf(api.NotFound, "only `peer analyze %s@%s` takes %s as it was; for the rest, `peer get %s --at %s` shows its spec then", key, run, key, key, run)
	}
	return api.Errorf(api.NotFound, "%s does not exist; list what does with `peer get %s`", key, plural(c, key.Kind))
}

func plural(c *peer.Core, kind string) string {
	if k, ok := c.Catalog().KindByName(kind); ok {
		return k.Plural
	}
	return kind
}

func keyOf(k *apiv1.Key) api.Key {
	return api.Key{Kind: k.GetKind(), Namespace: k.GetNamespace(), Name: k.GetName()}
}

func keyTo(k api.Key) *apiv1.Key {
	return &apiv1.Key{Kind: k.Kind, Namespace: k.Namespace, Name: k.Name}
}
