package coordinator

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"strconv"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"

	"xla_go/gosrc/status"
)

// Names of the metadata.
const (
	tokenKey  = "xla-go-token"
	rankKey   = "xla-go-rank"
	memberKey = "xla-go-member"
	// answeredKey marks an error that the coordinator itself gave, unlike one of the connection.
	answeredKey = "xla-go-answered"
)

// identity is what each call of a process carries; it implements credentials.PerRPCCredentials.
type identity struct {
	token, member string
	rank          int
}

func (i identity) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{tokenKey: i.token, rankKey: strconv.Itoa(i.rank), memberKey: i.member}, nil
}

func (i identity) RequireTransportSecurity() bool { return false }

type callerKey struct{}

func callerOf(ctx context.Context) identity { return ctx.Value(callerKey{}).(identity) }

// authenticate lets only those pass who know the token and name a rank of the job. It runs before
// anything but the header has been read, so a stranger cannot make the server keep a message.
func (s *server) authenticate(ctx context.Context, call *tap.Info) (context.Context, error) {
	// Hashed, so that neither the content nor the length shows in the time it takes.
	hash := sha256.Sum256([]byte(first(call.Header, tokenKey)))
	if subtle.ConstantTimeCompare(hash[:], s.tokenHash[:]) != 1 {
		return ctx, grpcstatus.Errorf(codes.Unauthenticated, "expected the job's token, got another: set %s to the same text in all processes", TokenVariable)
	}
	rank, err := strconv.Atoi(first(call.Header, rankKey))
	if err != nil || rank < 0 || rank >= len(s.members) {
		return ctx, grpcstatus.Errorf(codes.PermissionDenied, "expected a rank from 0 to %d, got %q", len(s.members)-1, first(call.Header, rankKey))
	}
	return context.WithValue(ctx, callerKey{}, identity{rank: rank, member: first(call.Header, memberKey)}), nil
}

func first(md metadata.MD, key string) string {
	if values := md.Get(key); len(values) > 0 {
		return values[0]
	}
	return ""
}

// refusedAtOnce says whether an error is one of authenticate, which leaves no mark.
func refusedAtOnce(code codes.Code) bool {
	return code == codes.Unauthenticated || code == codes.PermissionDenied
}

func (s *server) interceptUnary(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (reply any, err error) {
	if err = s.admit(callerOf(ctx)); err == nil {
		reply, err = handle(ctx, request)
	}
	if err != nil && ctx.Err() == nil {
		_ = grpc.SetTrailer(ctx, metadata.Pairs(answeredKey, "1"))
	}
	return reply, toWire(err)
}

func interceptStream(service any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	err := handle(service, stream)
	if err != nil && stream.Context().Err() == nil {
		stream.SetTrailer(metadata.Pairs(answeredKey, "1"))
	}
	return toWire(err)
}

// toWire keeps the code: gRPC's codes are the canonical ones.
func toWire(err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return grpcstatus.FromContextError(err).Err()
	}
	return grpcstatus.Error(codes.Code(status.CodeOf(err)), status.MessageOf(err))
}

func fromWire(err error) *status.Error {
	s := grpcstatus.Convert(err)
	return &status.Error{Code: status.Code(s.Code()), Message: s.Message()}
}
