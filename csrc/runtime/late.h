// Checks that failed on a device in a launch that nobody waited for. They are raised when the next region is entered,
// when something waits for the device, or at exit.
//
// All functions are called with the GIL held.
#pragma once

#include <Python.h>

#include <cstdint>

#include "runtime/signature.h"

namespace appy::runtime {

class Specialization;

/// A word that devices set when a check has failed. It lives for ever; while it is null, nothing fails.
void set_fault_flag(int64_t* word);

namespace detail {
extern volatile int64_t* fault_flag;
}
/// Has a check failed since the last look for failures?
inline bool fault_told() { return *detail::fault_flag != 0; }

/// Whose failures are looked for. forget() finds out whether a launch that is still going on fails, and keeps that.
void watch(const Specialization*);
void forget(const Specialization*);

/// Raises the first failure, if there is one: false, with nothing set, where there is none. What failed after it on the
/// same stream is forgotten, since Python would not have come there. `now` is a specialization that was just waited
/// for, and whose frame is `scope`: its failures are raised there.
bool raise_late_failure(const Specialization* now = nullptr, const Scope* scope = nullptr);

}  // namespace appy::runtime
