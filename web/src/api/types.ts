import type { components } from "./schema.ts";

export type Schemas = components["schemas"];
export type Session = Schemas["SessionView"];
export type Machine = Schemas["MachineView"];
export type Entry = Schemas["Entry"];
export type Content = Entry["content"];
export type Delta = Schemas["Delta"];
export type Approval = Schemas["Approval"];
export type OpenApproval = Schemas["ApprovalView"];
export type QueueItem = Schemas["QueueItem"];
export type QueueChange = Schemas["QueueChange"];
export type SyncEvent = Schemas["SyncEvent"];
export type Ready = Schemas["ReadyEvent"];
export type PermissionMode = Schemas["PermissionMode"];
export type Effort = Schemas["ReasoningEffort"];
export type NewAttachment = Schemas["NewAttachment"];
export type Token = Schemas["TokenView"];
export type DiffPart = Schemas["DiffBlock"];

export const PERMISSION_MODES: readonly PermissionMode[] = [
  "default", "acceptEdits", "plan", "read-only", "safe-yolo", "yolo", "bypassPermissions",
];
export const EFFORTS: readonly Effort[] = ["low", "medium", "high", "xhigh"];
