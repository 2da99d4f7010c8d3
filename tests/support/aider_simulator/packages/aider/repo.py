"""aider's git repository: there is none."""


class GitRepo:
    def __init__(self, io, fnames, git_dname, aider_ignore_file=None) -> None:
        raise FileNotFoundError

    def get_tracked_files(self):
        return []

    def git_ignored_file(self, path) -> bool:
        return False
