#include "runtime/cupy_api.h"

#include "runtime/device_arrays.h"

namespace appy::runtime {

const CupyApi* cupy_api() {
  // Not an initialiser: looking may run Python code, which may let go of the GIL.
  static bool looked = false;
  static const CupyApi* found = nullptr;
  if (looked) return found;
  constexpr const char* name = "cupy._public_c_api";
  const Ref capsule = module_attribute("cupy", "_public_c_api");
  looked = true;
  if (!capsule || !PyCapsule_IsValid(capsule.get(), name)) return nullptr;
  const auto* api = static_cast<const CupyApi*>(PyCapsule_GetPointer(capsule.get(), name));
  const bool complete = api->major > 14 || (api->major == 14 && api->minor >= 3);
  if (!complete || !api->array_type || !api->read || !api->current_stream) return nullptr;
  Py_INCREF(capsule.get());  // for the life of the process
  return found = api;
}

}  // namespace appy::runtime
