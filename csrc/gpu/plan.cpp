#include "gpu/plan.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <set>

#include "gpu/blas.h"
#include "gpu/cache.h"
#include "gpu/driver.h"
#include "gpu/prelude.h"
#include "gpu/solver.h"
#include "passes/loops.h"
#include "runtime/eval_kernel.h"
#include "support/abort.h"
#include "support/disk_cache.h"

namespace appy::gpu {

using ir::Word;

namespace {

/// Blocks that a multiprocessor gets one after the other where they need not be resident together: enough that the
/// last ones to finish leave little idle, and that those which load and those which store are not the same at all times
/// (softmax 553 us on an H200 with 8, 542 with 26). What each block has of a sum the last one adds up.
constexpr int64_t waves = 24, waves_of_sums = 8;

/// No loop is for workers or columns, and none is a product: then each thread has as many iterations as it has in
/// flight, and goes, so that all who are there are near to each other in memory. H200, out = a + 2 for 12500 x 12500
/// float64: 589 us, in 24 waves 611; b = 2 * a + b 877 and 904.
bool is_only_for_threads(const HostPart& part) {
  return part.products.empty() && std::all_of(part.nests.begin(), part.nests.end(), [](const NestSize& nest) {
           return nest.mapping == ir::Mapping::threads;
         });
}

bool has_loops(const ir::Graph& graph) {
  bool found = false;
  ir::walk(*graph.body, [&](const ir::Op& op) { found |= passes::is_loop(op); });
  return found;
}

/// So many combinations of sizes are launched without being thought about again.
constexpr size_t most_plans = 8;

}  // namespace

Plans::Plans(const ir::Graph& graph, Options options, Device& device)
    : graph_(graph),
      options_(std::move(options)),
      device_(device),
      part_(host_part_of(graph)),
      host_is_(has_loops(*part_.graph) ? Host::settled : Host::fresh),
      host_(host_is_ == Host::settled ? options_.compile_host(*part_.graph) : runtime::make_eval_kernel(*part_.graph)),
      wanted_(part_.known) {
  wanted_.flip();
  for (const ArraySize& array : part_.arrays) {
    const bool known = std::all_of(array.extents.begin(), array.extents.end(), [](int word) { return word >= 0; });
    if (!known && array.alloc->escapes) told_.push_back(array.alloc);
  }
  find_deciding_words();
  read_lines();
  // The first shape now, so that what has no form on the device is found out before anything runs.
  KernelShape first;
  first.tiles = tiles_everywhere(TileSize::large);
  first.shared = true;
  wish_.grant(first);
  code_ = generate(graph_, codegen_options(first));
  for (const ArrayUse& use : code_.arrays) {
    const auto size = std::find_if(part_.arrays.begin(), part_.arrays.end(),
                                   [&](const ArraySize& a) { return a.alloc == use.alloc; });
    if (std::any_of(size->most.begin(), size->most.end(), [](int word) { return word < 0; })) {
      const ir::Loc& at = graph_.locs[use.alloc->loc];
      throw Abort(AbortId::device_, "an array whose size follows from values in arrays", at.line, at.file);
    }
  }
  if (!code_.checks && told_.empty()) {
    whole_ = whole_product_of(graph_, part_, options_.unaligned);
    solve_ = whole_solve_of(graph_, part_, options_.unaligned);
    factor_ = whole_factor_of(graph_, part_, options_.unaligned);
    if (!whole_ && !solve_ && !factor_) given_ = given_products(graph_, part_, options_.unaligned);
    for (const GivenProduct& given : given_) {
      if (given.update) find_deciding_factors(*given.update);
    }
  }
  if (options_.tuning) fingerprint_ = fingerprint(without_lines(code_.text));
}

/// The evaluator computes the first sizes: most regions see no others, and to compile the host's part takes as long as
/// all else that is done for them.
runtime::Status Plans::run_host(runtime::Invocation& call) {
  if (host_is_ == Host::interpreted) {
    host_is_ = Host::settled;
    try {
      host_ = options_.compile_host(*part_.graph);
    } catch (const Abort&) {  // a CPU without AVX2: the evaluator goes on
    }
  }
  if (host_is_ == Host::fresh) host_is_ = Host::interpreted;
  return host_->run(call);
}

/// Extents, strides, and the scalars that the host's part reads.
void Plans::find_deciding_words() {
  std::set<size_t> read;
  ir::walk(*part_.graph->body, [&](const ir::Op& op) {
    for (const ir::Value* v : op.operands) {
      if (!v->op) read.insert(v->index);
    }
  });
  size_t word = 0;
  for (const ir::Value* v : graph_.body->args) {
    const size_t end = word + ir::words_of(v->type);
    if (v->type.is_view()) ++word;  // its address
    for (; word < end; ++word) {
      if (v->type.is_view() || read.count(v->index)) deciding_.push_back(word);
    }
  }
}

/// Whether the library stores what becomes of given sums follows from these.
void Plans::find_deciding_factors(const WholeProduct::Update& update) {
  for (const WholeProduct::Factor* factor : {&update.alpha, &update.beta}) {
    if (!factor->word) continue;
    const auto at = std::lower_bound(deciding_.begin(), deciding_.end(), *factor->word);
    if (at == deciding_.end() || *at != *factor->word) deciding_.insert(at, *factor->word);
  }
}

/// Now, as whoever compiles another shape later may not have the GIL.
void Plans::read_lines() {
  if (!options_.source_line || !has_lines()) return;
  ir::walk(*graph_.body, [&](const ir::Op& op) {
    const ir::Loc& at = graph_.locs[op.loc];
    if (op.loc == 0) return;
    const auto [place, added] = lines_.try_emplace({at.line, at.file});
    if (added) place->second = options_.source_line(at.file, at.line);
  });
  options_.source_line = nullptr;
}

CodegenOptions Plans::codegen_options(const KernelShape& shape) const {
  CodegenOptions options;
  options.shape = shape;
  options.made = part_.made;
  for (const Version& version : part_.versions) options.versions.push_back(version.op);
  options.results = wanted_;
  options.told = told_;
  options.unaligned = options_.unaligned;
  options.multiprocessors = device_.properties().multiprocessors;
  options.delays = delays_;
  options.lines = has_lines();
  options.source_line = [this](const std::string& file, int line) {
    const auto found = lines_.find({line, file});
    return found == lines_.end() ? std::string() : found->second;
  };
  return options;
}

namespace {

/// Seconds since the last question.
class Lap {
 public:
  double operator()() {
    const auto before = std::exchange(begun_, std::chrono::steady_clock::now());
    return std::chrono::duration<double>(begun_ - before).count();
  }

 private:
  std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
};

}  // namespace

Variant& Plans::variant(const KernelShape& shape) {
  const auto found = variants_.find(shape);
  if (found != variants_.end()) return found->second;
  Lap lap;
  Variant made;
  made.code = generate(graph_, codegen_options(shape));
  made.text_seconds = lap();
  return variants_.emplace(shape, std::move(made)).first->second;
}

void Plans::compile(Variant& kernel) {
  if (kernel.module) return;
  Lap lap;
  Source source;
  source.name = kernel.code.entry + ".cu";
  source.text = tells_lines_ ? with_each_line(kernel.code.text) : without_lines(kernel.code.text);
  source.headers = {{"appy_ptx.h", std::string(ptx_header)}, {"appy_device.h", std::string(device_header)}};
  if (kernel.code.updates) source.headers.push_back({"appy_update.h", std::string(update_header)});
  if (kernel.code.tiles) source.headers.push_back({"appy_product.h", std::string(product_header)});
  source.options = {"--std=c++17", "--fmad=false", "--extra-device-vectorization"};
  if (tells_lines_) source.options.push_back("--generate-line-info");
  const Image image = cached_compile(source, device_.properties().compute_capability, &kernel.from_disk);
  kernel.image_seconds = lap();
  const std::shared_ptr<Module> module = device_.load(image);
  kernel.function = module->function(kernel.code.entry);
  kernel.module = module;
  kernel.load_seconds = lap();
}

/// Blocks of the kernel that a multiprocessor holds at once.
int Plans::residents(Variant& kernel, const KernelShape& shape, size_t shared) {
  const auto known = kernel.resident.find(shared);
  if (known != kernel.resident.end()) return known->second;
  const int count = std::max(device_.max_active_blocks(kernel.function, shape.block, shared), 1);
  return kernel.resident.emplace(shared, count).first->second;
}

Plan* Plans::find(const Word* args, runtime::Status* status) {
  *status = runtime::Status::done;
  const auto fits = [&](const Plan& plan) {
    for (size_t k = 0; k < deciding_.size(); ++k) {
      if (plan.deciding[k] != args[deciding_[k]]) return false;
    }
    return true;
  };
  auto found = std::find_if(plans_.begin(), plans_.end(), fits);
  if (found == plans_.end()) {
    Plan plan;
    for (size_t word : deciding_) plan.deciding.push_back(args[word]);
    plan.results.resize(part_.graph->body->last->operands.size());
    runtime::Invocation on_host;
    on_host.args = args;
    on_host.results = plan.results.data();
    *status = run_host(on_host);
    if (*status != runtime::Status::done) return nullptr;
    if (options_.tuning && wish_ == Wish{}) plan.tuning = &tuning_of(plan);
    if (!plan.tuning) choose(plan, args, wish_);
    if (plans_.size() < most_plans) {
      found = plans_.insert(plans_.end(), std::move(plan));
    } else {
      found = plans_.begin() + static_cast<std::ptrdiff_t>(replaced_++ % most_plans);
      *found = std::move(plan);
    }
  }
  return &*found;
}

void Plans::do_without_library(Plan& plan, const Word* args) {
  has_library_ = false;
  choose(plan, args, plan.wish);
}

/// Fills in what follows from the wish.
void Plans::choose(Plan& plan, const Word* args, const Wish& wish) {
  const Sizes sizes(part_, plan.results.data());
  plan.kernel = nullptr;
  plan.wish = wish;
  plan.given = nullptr;
  std::string problem;
  const std::span<const Word> arguments(args, code_.words - 4 - 2 * code_.arrays.size());
  for (const GivenProduct& given : given_) {
    if (wish.block % 32 != 0) break;  // what is done with the sums is done by warps
    if (!has_library_ || wish.tiles || plan.given || wish.given == 2 || (wish.given == 0 && !pays(given, sizes)))
      continue;
    if (takes(given, sizes, arguments) && blas(problem)) plan.given = &given;
  }
  const int given = plan.given ? static_cast<int>(plan.given->nest) : -1;
  plan.shape = shape_for(sizes, code_, device_.properties(), wish, given);
  plan.shape.stored = plan.given && stores(*plan.given, sizes, arguments);
  // What each worker or thread has for itself is as large as there are blocks, which only the kernel says.
  const bool sized = std::all_of(code_.arrays.begin(), code_.arrays.end(), [&](const ArrayUse& use) {
    return use.owner == ArrayUse::Owner::region || use.owner == ArrayUse::Owner::block ||
           plan.shape.in_shared(use.owner);
  });
  const auto is_solved = [&](const auto& whole) {
    return whole && sized && wish.given != 2 && takes(*whole, arguments) &&
           (wish.given == 1 || pays(*whole, arguments));
  };
  plan.solved = (is_solved(solve_) || is_solved(factor_)) && blas(problem) && (!factor_ || solver(problem));
  plan.shape.rows = code_.leaves ? rows_of_columns(sizes, plan.shape) : 0;
  plan.shape.narrow = is_narrow(graph_, args, sizes);
  // Without the other version the compiler takes half as long, and the kernel fewer registers.
  for (size_t k = 0; k < part_.versions.size(); ++k)
    plan.shape.taken |= (sizes.at(part_.versions[k].word, 0) ? 1u : 2u) << (2 * k);
  if (plan.shape.piece && !has_rows_of_pieces(graph_, args, plan.shape.piece)) plan.shape.piece = 0;
  Variant& kernel = variant(plan.shape);
  plan.kernel = &kernel;
  plan.is_ready = false;
  const KernelShape& shape = plan.shape;
  const std::vector<size_t> in_shared = shared_offsets(sizes, code_.arrays, shape, kernel.code.shared_bytes);
  plan.shared_bytes = shape.shared ? in_shared.back() : kernel.code.shared_bytes;
  plan.blocks = 0;
  // A kernel for calls that the library does not take has to be compiled without fail when one comes.
  const bool can_wait = is_for_library(plan) && blas(problem) && compiles_for(device_.properties().compute_capability);
  if (!can_wait) make_ready(plan);
  plan.words.resize(kernel.code.words);
  plan.arrays.assign(code_.arrays.size(), {});
  const size_t first_array = kernel.code.words - 2 * code_.arrays.size();
  for (size_t k = 0; k < code_.arrays.size(); ++k) {
    const ArrayUse& use = code_.arrays[k];
    const ArraySize& size = part_.arrays[k];
    Plan::Array& array = plan.arrays[k];
    plan.words[first_array + code_.arrays.size() + k] = static_cast<Word>(std::max<int64_t>(sizes.elements(size), 1));
    array.in_shared = shape.in_shared(use.owner);
    if (array.in_shared) {
      plan.words[first_array + k] = in_shared[k];
      continue;
    }
    const int64_t threads = plan.blocks * shape.block;
    const int64_t owners = use.owner == ArrayUse::Owner::worker   ? threads / shape.lanes
                           : use.owner == ArrayUse::Owner::thread ? threads
                                                                  : 1;
    array.bytes = bytes_of(sizes, use, size, owners);
    array.told = std::find(told_.begin(), told_.end(), use.alloc) != told_.end();
    if (!use.alloc->escapes || array.told) continue;
    array.one =
        static_cast<size_t>(sizes.elements(size)) * static_cast<size_t>(ir::size_of(use.alloc->result()->type.dtype));
    for (int word : size.extents) array.extents.push_back(static_cast<Word>(std::max<int64_t>(sizes.at(word, 0), 0)));
  }
}

bool Plans::is_for_library(const Plan& plan) const {
  const bool tries = plan.tuning && !plan.tuning->done();
  if (plan.solved) return !tries;
  return whole_ && !tries && !plan.wish.tiles && plan.shape.tile_size(0) != TileSize::none;
}

void Plans::make_ready(Plan& plan) {
  if (plan.is_ready) return;
  const Sizes sizes(part_, plan.results.data());
  const KernelShape& shape = plan.shape;
  const Wish& wish = plan.wish;
  Variant& kernel = *plan.kernel;
  compile(kernel);
  if (plan.shared_bytes > static_cast<size_t>(device_.properties().shared_bytes_per_block)) {
    device_.allow_shared(kernel.function, static_cast<int>(plan.shared_bytes));
  }
  plan.blocks = wish.blocks > 0 ? wish.blocks : blocks_for(sizes, shape);
  const int64_t multiprocessors = device_.properties().multiprocessors;
  if (plan.blocks > multiprocessors) {  // one each there is always room for
    const int64_t resident = multiprocessors * residents(kernel, shape, plan.shared_bytes);
    const bool once = kernel.code.meets || !kernel.code.marches.empty();
    const bool sums = kernel.code.partial_bytes > 0, all = !sums && is_only_for_threads(part_);
    const int64_t rounds = once ? 1 : sums ? waves_of_sums : waves;
    if (once || (wish.blocks == 0 && !all)) plan.blocks = std::min(plan.blocks, resident * rounds);
  }
  // The fewer wait, the sooner they meet: trisolv takes 7.1 ms with one block each, and 11.7 with four.
  if (kernel.code.in_turn && wish.blocks == 0) plan.blocks = std::min(plan.blocks, multiprocessors);
  if (wish.per_multiprocessor) plan.blocks = std::min(plan.blocks, multiprocessors * wish.per_multiprocessor);
  plan.blocks = std::min(plan.blocks, blocks_with_room(sizes, shape));
  plan.is_ready = true;
}

/// Arrays that each worker or thread has for itself take at most this part of the device's memory; fewer blocks then
/// have more to do each.
int64_t Plans::blocks_with_room(const Sizes& sizes, const KernelShape& shape) const {
  const int64_t room = device_.properties().memory_bytes / 8;
  int64_t bytes = 0;  // a block
  for (size_t k = 0; k < code_.arrays.size(); ++k) {
    const ArrayUse& use = code_.arrays[k];
    if (use.owner == ArrayUse::Owner::region || use.owner == ArrayUse::Owner::block || shape.in_shared(use.owner))
      continue;
    const int64_t owners = use.owner == ArrayUse::Owner::worker ? shape.block / shape.lanes : shape.block;
    bytes += static_cast<int64_t>(bytes_of(sizes, use, part_.arrays[k], owners));
  }
  return bytes ? std::max<int64_t>(room / bytes, 1) : INT64_MAX;
}

void Plans::next(Plan& plan, const Word* args) {
  Tuning& tuning = *plan.tuning;
  const bool done = tuning.done();
  do {
    launching(plan);
    if (!plan.kernel || plan.wish != tuning.now()) choose(plan, args, tuning.now());
    launched();
  } while (!tuning.is_new(plan.shape, plan.blocks));
  if (!done && tuning.done()) tell(tuning);  // the candidates that were left have been measured under other names
}

bool Plans::refuse(const Error& error) {
  Tuning* const tried = std::exchange(tried_, nullptr);
  if (!tried || (error.kind() != ErrorKind::launch && error.kind() != ErrorKind::compilation)) return false;
  tried->refuse();
  return true;
}

void Plans::measured(Tuning& tuning, double seconds) {
  if (tuning.done()) return;
  tuning.add(seconds);
  tell(tuning);
}

void Plans::tell(const Tuning& tuning) {
  const auto [now, all] = tuning.progress();
  options_.tuning->progress(now, all);
  if (!tuning.done()) return;
  for (const auto& [kind, one] : tunings_) {
    if (&one == &tuning) options_.tuning->save(tuning_key(kind), tuning.now().text());
  }
}

/// Calls whose extents and counts have the same powers of two share what is chosen.
Tuning& Plans::tuning_of(const Plan& plan) {
  std::string kind;
  const auto power = [](Word n) {
    return static_cast<int64_t>(n) <= 1 ? std::to_string(n == 1) : "<" + std::to_string(std::bit_ceil(n + 1));
  };
  size_t k = 0, word = 0;
  for (const ir::Value* v : graph_.body->args) {
    const size_t begin = std::exchange(word, word + ir::words_of(v->type));
    std::string sizes;
    for (; k < deciding_.size() && deciding_[k] < word; ++k) {
      const bool counts =
          v->type.is_view() ? deciding_[k] <= begin + static_cast<size_t>(v->type.rank) : ir::is_int(v->type.dtype);
      if (counts) sizes += (sizes.empty() ? "" : " x ") + power(plan.deciding[k]);
    }
    if (!sizes.empty()) kind += (kind.empty() ? "" : ", ") + v->name + ": " + sizes;
  }
  const auto found = tunings_.find(kind);
  if (found != tunings_.end()) return found->second;
  Tuning& made = tunings_.emplace(kind, Tuning(part_, device_.properties())).first->second;
  const std::string known = options_.tuning->load(tuning_key(kind));
  if (!known.empty()) made.choose(Wish::of_text(known.c_str()));
  return made;
}

std::string Plans::tuning_key(const std::string& kind) const {
  const Properties& of = device_.properties();
  return of.name + "/" + capability_text(of.compute_capability) + "/" + version_text(driver().version) + "|" +
         graph_.name + "|" + fingerprint_ + "|" + kind;
}

}  // namespace appy::gpu
