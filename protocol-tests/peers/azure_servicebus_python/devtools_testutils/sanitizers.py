"""Sanitizers clean recordings; nothing is recorded here."""


def add_remove_header_sanitizer(**kwargs):
    pass


def add_general_regex_sanitizer(**kwargs):
    pass


def add_oauth_response_sanitizer(**kwargs):
    pass
