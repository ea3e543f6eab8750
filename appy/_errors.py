"""The package's exceptions and its warning category."""


class CompileError(RuntimeError):
    """A region could not be compiled and ``strict=True`` asked for it. The message names file, line and remedy."""


class PragmaError(SyntaxError):
    """A pragma could not be read. The message names file, line, column and what was expected."""


class AppyWarning(UserWarning):
    """A region runs in the interpreter, a pragma has no effect, or a promise was found to be false."""


class DeviceError(RuntimeError):
    """A device, its driver or its compiler is missing, does not fit, or failed. The message says what helps."""


class DeviceMemoryError(DeviceError, MemoryError):
    """The device is out of memory. Arrays stay as they are, and the device can be used further."""
