// An NVRTC that makes code for the emulated device, by g++. The parts of its interface that appy uses.
//
//   APPY_EMULATOR_NVRTC=12040           its version; default 13000
//   APPY_EMULATOR_ARCHITECTURES=80,90   what it makes machine code for; default 75,80,90,100
//   APPY_EMULATOR_DROP_BARRIER=2        without the second barrier that the kernel itself calls
//   APPY_EMULATOR_FOLDER                where compiled kernels are kept from run to run; default in /tmp
//
// The header appy_ptx.h is replaced by the one beside this file.
#include <fcntl.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "api.h"

extern char** environ;

namespace fs = std::filesystem;

namespace {

constexpr int kInvalidInput = 3, kInvalidProgram = 4, kInvalidOption = 5, kCompilation = 6;

struct Program {
  std::string source, name;
  std::vector<std::pair<std::string, std::string>> headers;
  std::string log, code;
  bool ptx = false;
};

std::atomic<long> compilations{0};
std::atomic<int> most_barriers{0};

std::string variable(const char* name, const std::string& otherwise) {
  const char* text = std::getenv(name);
  return text && *text ? text : otherwise;
}

std::vector<int> architectures() {
  std::vector<int> out;
  std::stringstream text(variable("APPY_EMULATOR_ARCHITECTURES", "75,80,90,100"));
  for (std::string one; std::getline(text, one, ',');) out.push_back(std::atoi(one.c_str()));
  return out;
}

std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// A function for each kernel that the emulated driver can call without knowing its type.
std::string entry_points(const std::string& source) {
  static const std::regex kernel(R"(__global__([^;{}]*?)\b(\w+)\s*\()");
  std::string out;
  for (std::sregex_iterator at(source.begin(), source.end(), kernel), end; at != end; ++at) {
    std::string name = (*at)[2];
    if (name == "__launch_bounds__" || name == "__maxnreg__") {  // its own parentheses first
      static const std::regex after(R"(^[^)]*\)[^;{}(]*?\b(\w+)\s*\()");
      std::smatch found;
      const std::string rest = at->suffix();
      if (!std::regex_search(rest, found, after)) continue;
      name = found[1];
    }
    out += "extern \"C\" void appy_emulator_call_" + name + "(void** a) { appy_emulator::call(&" + name + ", a); }\n";
    out += "extern \"C\" const size_t* appy_emulator_sizes_" + name + "() { return appy_emulator::sizes(&" + name +
           "); }\n";
  }
  return out;
}

int run(const std::vector<std::string>& command, const fs::path& log) {
  std::vector<char*> arguments;
  for (const std::string& one : command) arguments.push_back(const_cast<char*>(one.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 1, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  pid_t child = 0;
  int status = posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (status != 0) return status;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

/// The source with one of its calls of barriers, counted from 1, made a comment.
/// The next barrier that the kernel itself calls, or npos.
size_t find_barrier(const std::string& source, size_t from) {
  const size_t at = source.find("  barrier_", from);
  return at == std::string::npos ? at : at + 2;
}

std::string without_barrier(std::string source, int number) {
  size_t at = source.find("__global__");
  while (number > 0 && (at = find_barrier(source, at)) != std::string::npos) {
    if (--number == 0) source.insert(at, "//");
  }
  return source;
}

int count_barriers(const std::string& source) {
  int count = 0;
  for (size_t at = source.find("__global__"); (at = find_barrier(source, at)) != std::string::npos;) ++count;
  return count;
}

bool starts(const std::string& text, const char* with) { return text.rfind(with, 0) == 0; }

std::string name_of(const std::string& of) {
  char id[64];
  std::snprintf(id, sizeof id, "%016zx-%zu", std::hash<std::string>()(of), of.size());
  return id;
}

/// A folder of this process alone, next to others' of the name.
fs::path own_folder(const fs::path& folder, const std::string& name) {
  static std::atomic<long> number{0};
  const fs::path own = folder / (name + "-" + std::to_string(getpid()) + "-" + std::to_string(++number));
  std::error_code error;
  fs::create_directories(own, error);
  return own;
}

void write_headers(const Program& program, const fs::path& folder) {
  std::error_code error;
  for (const auto& [name, text] : program.headers) {
    if (name == "appy_ptx.h") continue;
    fs::create_directories((folder / name).parent_path(), error);
    std::ofstream(folder / name) << text;
  }
}

/// A folder with the program's headers and all.h, which includes them, precompiled: reading them takes g++ longer than
/// most kernels. Made once for as many programs as have these. What a program defines in front of its headers is for
/// them to see, so they are written for it alone.
fs::path precompiled(const Program& program, const std::vector<std::string>& command, const fs::path& folder,
                     const std::string& key) {
  const fs::path made = folder / (name_of(key) + ".headers");
  if (fs::exists(made)) return made;
  const fs::path work = own_folder(folder, "headers");
  write_headers(program, work);
  {
    std::ofstream all(work / "all.h");
    all << "#include \"prelude.h\"\n";
    for (const auto& [name, text] : program.headers) all << "#include \"" << name << "\"\n";
  }
  std::vector<std::string> compile = command;
  compile.insert(compile.end(), {"-I" + work.string(), "-x", "c++-header", "-o", (work / "all.h.gch").string(),
                                 (work / "all.h").string()});
  run(compile, work / "log");  // what is wrong with a header is said of the program
  std::error_code error;
  fs::rename(work, made, error);
  if (error) fs::remove_all(work, error);  // another process was faster
  return made;
}

}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

/// Calls of g++, without those that an earlier run has answered.
EXPORT long appy_emulator_compilations() { return compilations; }

/// Of the program that has the most of them.
EXPORT int appy_emulator_barriers() { return most_barriers; }

EXPORT const char* nvrtcGetErrorString(int code) {
  return code == 0                 ? "NVRTC_SUCCESS"
         : code == kInvalidInput   ? "NVRTC_ERROR_INVALID_INPUT"
         : code == kInvalidProgram ? "NVRTC_ERROR_INVALID_PROGRAM"
         : code == kInvalidOption  ? "NVRTC_ERROR_INVALID_OPTION"
                                   : "NVRTC_ERROR_COMPILATION";
}
EXPORT int nvrtcVersion(int* major, int* minor) {
  const int version = std::atoi(variable("APPY_EMULATOR_NVRTC", "13000").c_str());
  *major = version / 1000;
  *minor = version % 1000 / 10;
  return 0;
}
EXPORT int nvrtcGetNumSupportedArchs(int* count) {
  *count = static_cast<int>(architectures().size());
  return 0;
}
EXPORT int nvrtcGetSupportedArchs(int* out) {
  for (int one : architectures()) *out++ = one;
  return 0;
}
EXPORT int nvrtcCreateProgram(Program** program, const char* source, const char* name, int count,
                              const char* const* headers, const char* const* names) {
  *program = new Program;
  most_barriers = std::max(most_barriers.load(), count_barriers(source));
  (*program)->source = without_barrier(source, std::atoi(variable("APPY_EMULATOR_DROP_BARRIER", "0").c_str()));
  (*program)->name = name ? name : "default_program";
  for (int i = 0; i < count; ++i) (*program)->headers.emplace_back(names[i], headers[i]);
  return 0;
}
EXPORT int nvrtcDestroyProgram(Program** program) {
  delete *program;
  *program = nullptr;
  return 0;
}

EXPORT int nvrtcCompileProgram(Program* program, int count, const char* const* options) {
  const fs::path here = APPY_EMULATOR_SOURCES;
  const fs::path folder = variable("APPY_EMULATOR_FOLDER", "/tmp/appy-emulator-" + std::to_string(geteuid()));
  std::error_code error;
  fs::create_directories(folder, error);
  int architecture = 0;
  std::string contract = "fast";
  std::vector<std::string> extra;
  for (int i = 0; i < count; ++i) {
    const std::string option = options[i];
    const size_t value = option.find('=');
    if (starts(option, "--gpu-architecture=") || starts(option, "-arch=")) {
      const std::string name = option.substr(value + 1);
      program->ptx = starts(name, "compute_");
      architecture = std::atoi(name.c_str() + name.find('_') + 1);
    } else if (option == "--fmad=false" || option == "-fmad=false") {
      contract = "off";
    } else if (starts(option, "-D")) {
      extra.push_back(option);
    } else if (starts(option, "--define-macro=")) {
      extra.push_back("-D" + option.substr(value + 1));
    } else if (!starts(option, "-")) {
      program->log = "nvrtc: error: unrecognized option " + option + " found\n";
      return kInvalidOption;
    }
  }
  bool known = false;
  for (int one : architectures()) known |= one == architecture;
  if (!known) {
    program->log = "nvrtc: error: invalid value for --gpu-architecture (-arch)\n";
    return kInvalidOption;
  }

  std::string headers = APPY_EMULATOR_SOURCES + contract;
  for (const auto& [name, text] : program->headers) headers += name + text;
  for (const std::string& one : extra) headers += one;
  for (const char* name : {"prelude.h", "api.h", "appy_ptx.h", "nvrtc.cpp"}) headers += read_file(here / name);
  const std::string name = name_of(headers + program->source + program->name);
  const fs::path library = folder / (name + ".so");
  if (!fs::exists(library, error)) {
    ++compilations;
    const fs::path work = own_folder(folder, name);
    std::ofstream(work / "kernel.cpp") << "#line 1 \"" << program->name << "\"\n"
                                       << program->source << "\n#line 1 \"entry points\"\n"
                                       << entry_points(program->source);
    std::vector<std::string> command{"g++",
                                     "-std=c++20",
                                     "-O1",
                                     "-w",
                                     "-fPIC",
                                     "-march=native",
                                     "-fno-strict-aliasing",
                                     "-fno-gnu-unique",  // kernels have types of the same names
                                     "-ffp-contract=" + contract,
                                     "-I" + here.string()};
    command.insert(command.end(), extra.begin(), extra.end());
    if (starts(program->source, "#define")) {
      write_headers(*program, work);
      command.insert(command.end(), {"-I" + work.string(), "-include", "prelude.h"});
    } else {
      const fs::path ready = precompiled(*program, command, folder, headers);
      command.insert(command.end(), {"-I" + ready.string(), "-include", (ready / "all.h").string()});
    }
    command.insert(command.end(), {"-shared", "-o", (work / "kernel.so").string(), (work / "kernel.cpp").string()});
    const int status = run(command, work / "log");
    program->log = read_file(work / "log");
    if (status == 0) fs::rename(work / "kernel.so", library, error);
    fs::remove_all(work, error);
    if (status != 0) return kCompilation;
  }
  const std::string bytes = read_file(library);
  appy_emulator::Prologue head{};
  std::memcpy(head.magic, appy_emulator::kMagic, sizeof head.magic);
  head.architecture = architecture;
  head.ptx = program->ptx;
  head.bytes = bytes.size();
  program->code.assign(reinterpret_cast<const char*>(&head), sizeof head);
  program->code += bytes;
  return 0;
}

EXPORT int nvrtcGetProgramLogSize(Program* program, size_t* size) {
  *size = program->log.size() + 1;
  return 0;
}
EXPORT int nvrtcGetProgramLog(Program* program, char* log) {
  std::memcpy(log, program->log.c_str(), program->log.size() + 1);
  return 0;
}
EXPORT int nvrtcGetCUBINSize(Program* program, size_t* size) {
  *size = program->ptx ? 0 : program->code.size();
  return 0;
}
EXPORT int nvrtcGetCUBIN(Program* program, char* code) {
  std::memcpy(code, program->code.data(), program->code.size());
  return program->ptx ? kInvalidProgram : 0;
}
EXPORT int nvrtcGetPTXSize(Program* program, size_t* size) {
  *size = program->code.size();
  return 0;
}
EXPORT int nvrtcGetPTX(Program* program, char* code) {
  std::memcpy(code, program->code.data(), program->code.size());
  return 0;
}
