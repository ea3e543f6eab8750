// The recorder: interprets a region's instructions abstractly over structured control flow, with traced values on the
// stack and in the variables, and writes the graph and the signature.
//
// Rules for editors:
// 1. A path's state is `slots_`: the region's variables (localsplus, then stored globals), then the locals and the
//    stack of each active frame. Whoever follows a path takes the slots along in an Outcome and puts them back.
// 2. `execute` follows a path until it arrives at nodes in `stops`. Where a path arrives at several nodes, the Outcome
//    selects one of them by a value, and `resolve` emits the conditionals that follow each.
// 3. A loop is traced until the types that its back edges bring are those it was entered with.
// 4. Ops are only appended to the current block, and every function leaves the builder in the block it found it in.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "bytecode/cfg.h"
#include "runtime/device_arrays.h"
#include "support/abort.h"
#include "trace/state.h"
#include "trace/tensor_mapping.h"
#include "trace/trace.h"

namespace appy::trace {

/// Variables (localsplus index) whose entry values must be known before the region's first instruction; true: as
/// constants.
using EntryVariables = std::map<int, bool>;

/// A name as text, "?" where it has none.
std::string text_of(PyObject* name);

/// Thrown when a variable turns out to belong to EntryVariables: the trace starts again.
struct Restart {
  int variable;
  bool constant = false;
};

struct Code {
  std::vector<bytecode::Instruction> instructions;
  std::unique_ptr<bytecode::Cfg> cfg;
};

/// Where a path, or a bundle of paths, has arrived. No targets: control does not go on.
struct Outcome {
  struct Target {
    int node = 0;
    size_t depth = 0;  // number of slots there
  };
  std::vector<Target> targets;    // by the order of the graph
  ir::Value* selector = nullptr;  // two targets: bool, true is the first; more: i64, the node
  std::vector<Slot> slots;
};

class Recorder : public Context {
 public:
  Recorder(const Region&, const runtime::Scope&, const EntryVariables&);
  Result run();

  ir::Builder& builder() override { return builder_; }
  void check(ir::Check, ir::Value* ok, std::span<ir::Value* const> info) override;
  int line() const override { return line_; }
  bool exact() const override { return region_.exact; }
  void mark_written(const Traced& array) override;
  ir::Value* extent(const Traced& array, int dim) override;
  std::optional<int64_t> sample(const ir::Value*) const override;
  bool is_single(ir::Value* extent) override;
  std::optional<bool> settle(ir::Value* condition) override;
  void poll() override;
  bool annotated() const override;
  Statement* statement() override;
  std::shared_ptr<MatrixProduct>* product() override { return &product_; }
  bool auto_simd() const override { return region_.auto_simd; }
  bool for_device() const override { return region_.for_device || signature_.device >= 0; }
  int workers() const override { return region_.workers; }
  int registers() const override { return region_.registers; }
  std::string variable_of(const Traced& array) const override;
  runtime::Library library() const override { return signature_.library; }
  void make_arrays_of(const char* module, const char* function) override;

 private:
  using Stops = std::vector<bool>;
  struct LoopContext;
  struct Frame {
    PyCodeObject* code = nullptr;
    const Code* text = nullptr;
    PyObject* globals = nullptr;
    PyObject* builtins = nullptr;
    PyObject* closure = nullptr;
    size_t locals = 0;  // first slot of its locals
    size_t result = 0;  // slot of its return value; the region's own frame has one for each return
    size_t stack = 0;   // first slot of its stack
    int function = -1;  // input of an inlined function; -1: the region's own frame
    ir::LocId inlined_at = 0;
    std::string file;
    Frame* caller = nullptr;
    LoopContext* loop = nullptr;   // innermost loop of this frame that is being traced
    PyObject* keywords = nullptr;  // names for the next call, borrowed
  };

  // recorder.cpp: set-up, checks. recorder_end.cpp: the end.
  void prepare();
  void finish(Outcome);
  void refuse_unaligned_atomics() const;
  void add_output(const Merged&, runtime::Output, std::vector<ir::Type>& types);
  bool may_drop(size_t slot, size_t stored, const Slot& last);
  bool is_as_at_entry(const Slot& then, size_t slot) const;
  bool is_choice(const Slot& last, size_t stored) const;
  ir::Value* choice(const Slot&);
  bool is_view(const Slot& last, size_t slot, int stored) const;
  runtime::Output view_output(const Slot&, runtime::Output, std::vector<ir::Type>& types);
  void append_view(const Slot& of, const Slot& now, size_t slot, std::vector<ir::Value*>& words);
  void escape(const Slot&);
  void snapshot(ir::Op*);
  [[noreturn]] void abort(AbortId, std::string detail = {}) const;

  // recorder_flow.cpp, recorder_loops.cpp: control flow.
  Outcome execute(int node, std::vector<Slot>, const Stops&, bool inside_header = false);
  Outcome resolve(Outcome, const Stops&);
  Outcome branch(const Outcome&, size_t chosen, const Stops&);
  Outcome rest_of(const Outcome&, size_t chosen);
  Outcome join_arms(ir::Op*, const std::vector<Slot>& before, Outcome, Outcome);
  bool leave_loop(ir::Block* arm, Outcome&);
  ir::Value* selector_for(const Outcome&, const std::vector<Outcome::Target>& targets);
  ir::Value* select(const Outcome&, size_t target);
  bool hoist_raise(const Outcome&, size_t raising);
  bool always_raises(int node) const;
  Outcome loop(int index, std::vector<Slot>, const Stops&);
  void close_body(LoopContext&, Outcome);
  void narrow(LoopContext&, size_t k, const Slot& now, Merged&);
  std::vector<ir::Value*> carried_words(LoopContext&, const std::vector<Slot>&, size_t depth, int exit);
  std::vector<size_t> stored_slots(const bytecode::NaturalLoop&) const;
  ir::Loop loop_attributes(const pragma::LoopPragma*, bool leaves_early);
  ir::Value* enters_range(const Traced& range);

  // clauses.cpp: what pragmas say beside the loop's kind.
  const pragma::LoopPragma* pragma_of(const bytecode::Instruction&) const;
  int64_t clause_value(const pragma::IntArg&, const char* clause);
  void review_clauses(const pragma::LoopPragma&, const LoopContext&, ir::Op& loop);
  void remark(ir::Severity, std::string text);
  Ref entry_names() const;

  // items.cpp: what pragmas of array statements say.
  void follow_statement(const bytecode::Instruction&);
  const pragma::NamedSlice* named_slice(const bytecode::Instruction&) const;
  Statement& statement_of(const pragma::Placed&);
  std::optional<int64_t> entry_number(const std::string& expression, const pragma::Placed&);
  std::optional<int64_t> value_of(const std::string& expression, PyObject* names) const;
  void review_items();
  ir::LocId loc_of(const pragma::Placed&);

  // recorder_instructions.cpp: one instruction.
  enum class Flow : uint8_t { next, dead };
  Flow step(const bytecode::Instruction&);
  /// Notes an array that the interpreter would have made by the instruction.
  void count_array(const bytecode::Instruction&);
  Flow subscript_op(const bytecode::Instruction&);
  Traced pop_slice(int count, const bytecode::Instruction&);
  void load_element(const bytecode::Instruction&, bool duplicated, Traced container, Traced index);
  void store_element(const bytecode::Instruction&, Traced container, Traced index);
  void materialise_pending();
  ir::Value* condition(const bytecode::Instruction&, bool& pops_on_jump, bool& pops_on_fall);
  Flow raise(int count);
  /// `unbound`: what the check says of a variable without a value.
  Flow load_variable(size_t slot, const std::string& name, ir::CheckKind unbound);
  Traced computed(Traced);
  void store_variable(size_t slot, Traced);
  Flow delete_variable(size_t slot, Flow loaded);
  Flow load_deref(int index);
  void unpack(int count);
  void load_attribute(const std::string& name, PyObject* key);
  bool in_atomic_statement(const bytecode::Instruction&) const;
  void push(Traced t) { slots_.push_back(Slot::of(std::move(t))); }
  Traced pop();
  Traced peek(size_t depth) const;
  std::string variable_name(int index) const;

  // recorder_calls.cpp: calls.
  Flow call(int count, PyObject* names);
  Flow inline_call(const Traced& function, std::vector<Traced> args, std::vector<std::pair<std::string, Traced>> named);
  std::vector<Slot> bind(const Traced& function, std::vector<Traced>& args,
                         std::vector<std::pair<std::string, Traced>>& named);
  const Code& code_of(PyCodeObject*);

  // recorder_inputs.cpp: values of the frame.
  Traced entry_value(int variable);
  PyObject* entry_object(int variable) const;
  /// The slot, with the entry value in place of `entry` where it was loaded meanwhile.
  Slot settled(const Slot&, size_t index) const;
  Flow load_global(PyObject* name);
  Traced global_value(PyObject* name);
  /// Slot of a global that the region stores to; -1: it does not.
  int stored_global(PyObject* name) const;
  Traced closure_value(int index);
  Traced read(PyObject* value, runtime::Input, bool constant);
  /// The view of a field of an array of records.
  Traced field(const Traced& records, PyObject* name);

  // recorder_arrays.cpp: arrays of the frame, and elements that are 0-d arrays to Python.
  Traced read_array(runtime::Library, PyObject* value, runtime::Input);
  void enter_library(runtime::Library, int device, const std::string& name);
  void require_place() const;
  bool is_zero_d_array(const Traced&) const;
  /// The scalar on top of the stack was read from the container.
  void mark_element(const Traced& container);
  void outdate_elements(const Traced& array);
  void review_in_place(const Traced& before, const Traced& after) const;
  void share(Traced&);

  int add_input(runtime::Input);
  int parameter(ir::Type, const std::string& name, ir::Range range = {});
  int function_globals();

  const Region& region_;
  const runtime::Scope& scope_;
  const EntryVariables& entry_variables_;
  std::unique_ptr<ir::Graph> graph_;
  ir::Builder builder_;
  runtime::Signature signature_;
  std::vector<Slot> slots_;
  Frame* frame_ = nullptr;
  Frame region_frame_;
  size_t variables_ = 0;                      // slots of the region's variables
  std::vector<size_t> stored_;                // those that the region stores to
  std::vector<bool> live_after_;              // by localsplus: read after the region, as far as can be told
  int end_ = 0;                               // the first instruction after the region
  std::vector<PyObject*> stored_globals_;     // names, borrowed from co_names
  std::map<int, Traced> entry_values_;        // by variable
  std::map<std::string, Traced> globals_;     // by function input and name
  std::map<std::string, Traced> attributes_;  // by input and name
  std::map<PyCodeObject*, std::unique_ptr<Code>> codes_;
  std::vector<Ref> alive_;
  Samples samples_;
  std::map<std::pair<ir::LocId, int>, ArrayCounts> interpreted_;  // arrays of the interpreter, by instruction
  std::vector<runtime::ForeignArray> arrays_;                     // as they are at entry, by input
  std::string library_name_;                                      // what said which library the arrays are of
  bool numpy_scalars_ = false;                                    // there are some that no array gave
  std::map<const ir::Op*, std::vector<Slot>> snapshots_;          // values of stored_ at checks and polls
  std::vector<Slot> reordered_state_;  // of stored_ before the outermost parallel or simd loop
  int reordered_ = 0;                  // depth of such loops
  bool finishing_ = false;             // only the states of checks are still to be written
  int depth_ = 0;                      // of inlined calls
  int line_ = 0;
  std::shared_ptr<MatrixProduct> product_;  // whose loops wait for the end of an expression
  const pragma::Placed* placed_ = nullptr;  // the tensor pragma of the statement that is traced
  std::map<const pragma::Placed*, std::unique_ptr<Statement>> statements_;
  std::vector<std::pair<int, int>> returns_;  // return node and its exit number
};

}  // namespace appy::trace
