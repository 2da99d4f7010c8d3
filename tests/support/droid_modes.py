"""Our permission modes in Droid's words."""

from farsteer.core.modes import PermissionMode

DROID_MODES = [
    (PermissionMode.DEFAULT, "auto", "off", "normal"),
    (PermissionMode.READ_ONLY, "auto", "off", "normal"),
    (PermissionMode.ACCEPT_EDITS, "auto", "low", "auto-low"),
    (PermissionMode.SAFE_YOLO, "auto", "medium", "auto-medium"),
    (PermissionMode.YOLO, "auto", "high", "auto-high"),
    (PermissionMode.BYPASS, "auto", "high", "auto-high"),
    (PermissionMode.PLAN, "spec", "off", "spec"),
]
"""(mode, interaction mode, autonomy level, name in older versions)"""
