// A compiled region for one combination of types: when it applies, what it runs, and what its results mean.
#pragma once

#include <Python.h>

#include <memory>
#include <string>
#include <vector>

#include "ir/ir.h"
#include "runtime/arrays.h"
#include "runtime/guards.h"
#include "runtime/kernel.h"
#include "runtime/raise.h"
#include "runtime/signature.h"

namespace appy::runtime {

enum class Launch : uint8_t {
  declined,  // nothing was written that the interpreter would not write again
  done,
  exited,  // left by `return`; *returned is a new reference
  raised,  // a Python exception is set
};

class Specialization {
 public:
  /// `graph` is the graph that the kernel was compiled from, `place` names the region for messages: "f (a.py:3)".
  Specialization(std::unique_ptr<ir::Graph> graph, Signature signature, std::unique_ptr<Kernel> kernel,
                 const Scope& traced_in, std::string place = {});
  ~Specialization();
  Specialization(const Specialization&) = delete;
  Specialization& operator=(const Specialization&) = delete;

  const Guards& guards() const { return guards_; }
  const ir::Graph& graph() const { return *graph_; }
  const Signature& signature() const { return signature_; }
  const Kernel& kernel() const { return *kernel_; }

  /// Runs the kernel on an entry that the guards filled, with the GIL released where the work is worth it, and leaves
  /// the results in the frame. What a device does is waited for where `wait` says so, or the results need it.
  enum class Wait : uint8_t { never, for_failures, always };
  Launch launch(const Scope&, Entry&, int threads, PyObject** returned, Wait wait = Wait::never) const;

  /// Raises a failure of the kernel in the frame that runs the region; or makes what is raised elsewhere.
  void raise(const Failure&, const Scope&) const;
  LateError late_error(const LateFailure&) const;

 private:
  bool is_long(const Entry&) const;
  Status run(Invocation&, const Entry&, bool wait) const;
  Launch fail(Invocation&, const MadeArrays&, const Scope&, Entry&) const;

  std::unique_ptr<ir::Graph> graph_;
  Signature signature_;
  std::unique_ptr<Kernel> kernel_;
  Guards guards_;
  std::string place_;
  Kernel::Where where_;
  std::vector<const ir::Op*> checks_;  // in walk order
  std::vector<Ref> raised_;            // the classes that they raise by name
  size_t results_ = 0;
  bool reads_what_it_writes_ = false;
  bool unbounded_ = false;  // has a `while`, or a loop over a large constant
  int depth_ = 0;           // of loops
  // Where in the argument words the numbers lie that loops may count to: integer scalars and extents.
  std::vector<size_t> counts_;
};

}  // namespace appy::runtime
