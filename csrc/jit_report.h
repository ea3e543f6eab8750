// What the driver tells people: dumps of stages, texts for explain, warnings, refusals.
#pragma once

#include <Python.h>

#include <string>
#include <string_view>
#include <vector>

#include "ir/ir.h"
#include "jit.h"
#include "runtime/kernel.h"
#include "support/abort.h"
#include "trace/trace.h"

namespace appy {

/// Prints and keeps the texts of the stages of one compilation, as options and Config ask.
class StageLog {
 public:
  StageLog(const RegionOptions&, SpecializationReport&);
  bool wants(Stage stage) const { return keep_ || (print_ & stage); }
  void bytecode(PyCodeObject*, int begin, int end);
  void traced(const ir::Graph&);
  void pass(std::string_view name, const ir::Graph&);
  void passes_from_disk(bool known) { report_.passes_from_disk = known; }
  void listing(const runtime::Kernel&);

 private:
  void add(Stage, std::string_view label, std::string text);
  const RegionOptions& options_;
  SpecializationReport& report_;
  uint8_t print_;
  bool keep_;
};

std::vector<RemarkReport> remarks_of(const ir::Graph&);
/// The arrays that the interpreter would make, and those that the graph still makes; empty where there are none.
std::string arrays_of(const trace::Result&);

/// What Python's linecache has for a line; empty where it has nothing.
std::string source_line(const std::string& file, int line);

/// The report of a combination of types that could not be compiled.
SpecializationReport refusal(const Abort&, const RegionOptions&, std::string signature);
/// "f: the loop at a.py:3 runs in the interpreter: reason (b.py:4); remedy".
std::string refusal_message(const SpecializationReport&, const RegionOptions&);

/// Through the hook: false where it raised.
bool warn(const std::string& message, const std::string& file, int line, const char* kind);
void raise_compile_error(const std::string& message);

}  // namespace appy
