package server

import (
	"starling.dev/starling/api/v1/apiv1connect"
	"starling.dev/starling/api/v1/calls"
)

// methods are the procedures of the service that have one request and one answer.
func (s *Server) methods() map[string]calls.Method {
	return map[string]calls.Method{
		apiv1connect.StarlingApplyProcedure:         calls.Unary(s.Apply),
		apiv1connect.StarlingPlanProcedure:          calls.Unary(s.Plan),
		apiv1connect.StarlingRollbackProcedure:      calls.Unary(s.Rollback),
		apiv1connect.StarlingGetProcedure:           calls.Unary(s.Get),
		apiv1connect.StarlingStatusProcedure:        calls.Unary(s.Status),
		apiv1connect.StarlingWhyProcedure:           calls.Unary(s.Why),
		apiv1connect.StarlingHistoryProcedure:       calls.Unary(s.History),
		apiv1connect.StarlingMachinesProcedure:      calls.Unary(s.Machines),
		apiv1connect.StarlingInviteProcedure:        calls.Unary(s.Invite),
		apiv1connect.StarlingRemoveMachineProcedure: calls.Unary(s.RemoveMachine),
		apiv1connect.StarlingImagesProcedure:        calls.Unary(s.Images),
		apiv1connect.StarlingRemoveImagesProcedure:  calls.Unary(s.RemoveImages),
		apiv1connect.StarlingTopProcedure:           calls.Unary(s.Top),
		apiv1connect.StarlingTunnelsProcedure:       calls.Unary(s.Tunnels),
		apiv1connect.StarlingDoctorProcedure:        calls.Unary(s.Doctor),
		apiv1connect.StarlingAnalyzeProcedure:       calls.Unary(s.Analyze),
		apiv1connect.StarlingVerifyProcedure:        calls.Unary(s.Verify),
		apiv1connect.StarlingExplainProcedure:       calls.Unary(s.Explain),
		apiv1connect.StarlingFinishProcedure:        calls.Unary(s.Finish),
		apiv1connect.StarlingDebugProcedure:         calls.Unary(s.Debug),
	}
}
