// Compiled code issues no RuntimeWarnings and raises no FloatingPointError. Where the program asked for either to be an
// exception, or a call, the interpreter has to run the statement.
#pragma once

namespace appy::runtime {

/// True while np.errstate is at ignore and warn, and no warning filter turns a RuntimeWarning into an error. What was
/// found is remembered until the state or the list of filters changes. Never sets an exception.
bool float_errors_are_silent();

}  // namespace appy::runtime
