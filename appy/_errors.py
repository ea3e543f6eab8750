"""The package's exceptions and its warning category."""


class CompileError(RuntimeError):
    """A region could not be compiled and ``strict=True`` asked for it. The message names file, line and remedy."""


class PragmaError(SyntaxError):
    """A pragma could not be read. The message names file, line, column and what was expected."""


class AppyWarning(UserWarning):
    """A region runs in the interpreter, a pragma has no effect, or a promise was found to be false."""
