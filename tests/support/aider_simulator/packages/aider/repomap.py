"""aider's map of a repository."""


class RepoMap:
    TAGS_CACHE_DIR = ".aider.tags.cache"
