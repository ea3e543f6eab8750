// From the argument words of an entry to what is launched: the compiled kernel, its shape, the sizes of its arrays.
// Plans are kept, so that a launch like one before costs the comparison of its extents.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gpu/codegen.h"
#include "gpu/device.h"
#include "gpu/given_product.h"
#include "gpu/host_part.h"
#include "gpu/kernel.h"
#include "gpu/shape.h"
#include "gpu/tuning.h"
#include "gpu/whole_factor.h"
#include "gpu/whole_product.h"
#include "gpu/whole_solve.h"
#include "ir/ir.h"
#include "runtime/kernel.h"

namespace appy::gpu {

/// The kernel for one shape.
struct Variant {
  KernelCode code;
  std::shared_ptr<Module> module;  // null until it is compiled
  Function function;
  bool from_disk = false;
  double text_seconds = 0, image_seconds = 0, load_seconds = 0;  // to write its text, compile or read it, load it
  int64_t blocks = 0;                                            // of the last launch
  std::string library;             // that computed it then in the kernel's place, or the given sums, or empty
  std::map<size_t, int> resident;  // blocks a multiprocessor, by bytes of shared memory
};

/// All that follows from the argument words that are no addresses, and parameters to write addresses into.
struct Plan {
  std::vector<ir::Word> deciding;  // the values of those words
  std::vector<ir::Word> results;   // the host's
  Tuning* tuning = nullptr;
  Wish wish;
  KernelShape shape;
  Variant* kernel = nullptr;
  bool is_ready = false;  // the kernel is compiled, and the number of blocks is known
  size_t shared_bytes = 0;
  int64_t blocks = 0;
  std::vector<ir::Word> words;
  struct Array {
    bool in_shared = false, told = false;
    size_t bytes = 0;               // for all owners
    size_t one = 0;                 // of one
    std::vector<ir::Word> extents;  // of one that escapes
  };
  std::vector<Array> arrays;
  const GivenProduct* given = nullptr;  // whose sums a library computes
  int alone = 0;                        // calls that are the kernel's before a library is asked again
  bool solved = false;                  // or factored, by a library that tells whether it did, as far as the sizes go
};

/// Not thread-safe.
class Plans {
 public:
  /// Throws Abort for what has no form on the device. The graph outlives it.
  Plans(const ir::Graph&, Options, Device&);

  const HostPart& part() const { return part_; }
  /// The code of some shape; all have the same arrays, checks and words.
  const KernelCode& code() const { return code_; }
  /// Which of the region's results come from the device.
  const std::vector<bool>& wanted() const { return wanted_; }
  /// Arrays that outlive the region and whose extents the device tells.
  const std::vector<const ir::Op*>& told() const { return told_; }

  /// Where the region is one product of matrices.
  const std::optional<WholeProduct>& whole() const { return whole_; }
  /// Where it is one triangular substitution.
  const std::optional<WholeSolve>& solve() const { return solve_; }
  /// Where it is one factorization.
  const std::optional<WholeFactor>& factor() const { return factor_; }

  /// The plan for such arguments; null where the host's part does not end well, and `status` says how. With tuning it
  /// is complete after next().
  Plan* find(const ir::Word* args, runtime::Status* status);
  /// Is the region, a product, a substitution or a factorization, for a library? Its kernel is compiled when the
  /// library does not take a call.
  bool is_for_library(const Plan&) const;
  void make_ready(Plan&);
  /// Gives the plan the next candidate, or what was chosen.
  void next(Plan&, const ir::Word* args);
  /// Has what was thrown to do with a candidate? Then there will be another one.
  bool refuse(const Error&);
  /// The library cannot: the plan, and those that are made from now on, do without.
  void do_without_library(Plan&, const ir::Word* args);
  /// The plan's candidate is being launched.
  void launching(const Plan& plan) { tried_ = plan.tuning && plan.tuning->is_trying() ? plan.tuning : nullptr; }
  void launched() { tried_ = nullptr; }
  /// So long took a launch of the candidate.
  void measured(Tuning&, double seconds);

  const std::map<KernelShape, Variant>& variants() const { return variants_; }
  const std::map<std::string, Tuning>& tunings() const { return tunings_; }

 private:
  /// Is there anybody who reads of lines in the kernel's text?
  bool has_lines() const { return options_.keep_listing || tells_lines_; }
  void read_lines();
  runtime::Status run_host(runtime::Invocation&);
  void find_deciding_words();
  void find_deciding_factors(const WholeProduct::Update&);
  CodegenOptions codegen_options(const KernelShape&) const;
  Variant& variant(const KernelShape&);
  void compile(Variant&);
  int residents(Variant&, const KernelShape&, size_t shared);
  void choose(Plan&, const ir::Word* args, const Wish&);
  int64_t blocks_with_room(const Sizes&, const KernelShape&) const;
  Tuning& tuning_of(const Plan&);
  /// How far it is; once done, for other processes too.
  void tell(const Tuning&);
  std::string tuning_key(const std::string& kind) const;

  const ir::Graph& graph_;
  Options options_;
  Device& device_;
  HostPart part_;
  enum class Host : uint8_t { fresh, interpreted, settled } host_is_;
  std::unique_ptr<runtime::Kernel> host_;
  KernelCode code_;
  std::optional<WholeProduct> whole_;
  std::vector<GivenProduct> given_;
  std::optional<WholeSolve> solve_;
  std::optional<WholeFactor> factor_;
  bool has_library_ = true;  // as far as is known
  std::vector<bool> wanted_;
  std::vector<const ir::Op*> told_;
  std::vector<size_t> deciding_;                              // argument words that a plan follows from
  std::map<std::pair<int, std::string>, std::string> lines_;  // of the source
  std::string fingerprint_;                                   // of the kernel, for what tuning keeps
  const Wish wish_ = Wish::of_environment();
  const std::string delays_ = delays_of_environment();
  const bool tells_lines_ = lines_of_environment();
  std::map<KernelShape, Variant> variants_;
  std::vector<Plan> plans_;
  size_t replaced_ = 0;
  std::map<std::string, Tuning> tunings_;  // by kind of sizes
  Tuning* tried_ = nullptr;                // whose candidate may be more than the device launches
};

}  // namespace appy::gpu
