// Runs programs on the Verilated accelerator: a stream of instruction words, and device memory with
// the machine's latency. Reads cases from one file and writes what happened to another; the formats
// are those of cosim.py. LATENCY, UNITS, LINE_BYTES, RESPONSE_BYTES and WORD_BYTES are defined by it;
// COUNTERS where the module has so many of them.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <vector>

#include "Vridgeline_accelerator.h"
#include "verilated.h"

using Bytes = std::vector<uint8_t>;

static FILE* input;
static FILE* output;

static uint64_t get() {
    uint64_t value;
    if (fread(&value, 8, 1, input) != 1) exit(3);
    return value;
}

static Bytes get_bytes(size_t size) {
    Bytes bytes(size);
    if (size && fread(bytes.data(), 1, size, input) != size) exit(3);
    return bytes;
}

static void put(uint64_t value) {
    if (fwrite(&value, 8, 1, output) != 1) exit(4);
}

// xorshift64*; a seed of 0 never stalls.
struct Stalls {
    uint64_t state;
    bool now() {
        if (!state) return false;
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        return (state * 2685821657736338717ull) >> 62 == 0;
    }
};

struct Response {
    uint64_t due;
    uint8_t data[RESPONSE_BYTES];
};

struct Log {
    std::vector<uint64_t> started[UNITS], drained[UNITS];
};

class Run {
  public:
    Run(Bytes memory, uint64_t seed, uint64_t most)
        : memory_(std::move(memory)), stalls_{seed}, most_(most), top_(new Vridgeline_accelerator) {}

    // Cycles until `done` is visible, or 0 when that took longer than allowed.
    uint64_t segment(const Bytes& words, Log& log) {
        reset();
        uint32_t counts[UNITS] = {};
        size_t next = 0;
        for (uint64_t cycle = 0; cycle <= most_; cycle++) {
            drive(words, next, cycle);
            top_->eval();
            observe(log, counts, cycle);
            if (top_->done) return cycle;
            accept(words, next, cycle);
            edge();
        }
        return 0;
    }

    const Bytes& memory() const { return memory_; }

#ifdef COUNTERS
    uint64_t counter(int place) {
        top_->counter_index = place;
        top_->eval();
        return top_->counter_value;
    }
#endif

  private:
    void edge() {
        top_->clk = 1;
        top_->eval();
        top_->clk = 0;
    }

    void reset() {
        top_->instruction_valid = top_->read_ready = top_->write_ready = top_->response_valid = 0;
        responses_.clear();
        top_->rst = 1;
        top_->clk = 0;
        top_->eval();
        edge();
        top_->rst = 0;
    }

    void drive(const Bytes& words, size_t next, uint64_t cycle) {
        // A word is never taken back once shown.
        shown_ = next < words.size() && (shown_ || !stalls_.now());
        top_->instruction_valid = shown_;
        if (shown_) memcpy(&top_->instruction_word, &words[next], WORD_BYTES);
        top_->read_ready = !stalls_.now();
        top_->write_ready = !stalls_.now();
        bool answer = !responses_.empty() && responses_.front().due <= cycle && !stalls_.now();
        top_->response_valid = answer;
        if (answer) {
            memcpy(&top_->response_data, responses_.front().data, RESPONSE_BYTES);
            responses_.pop_front();
        }
    }

    void observe(Log& log, uint32_t* counts, uint64_t cycle) {
        const uint32_t now[UNITS] = {top_->count_load, top_->count_store, top_->count_weights,
                                     top_->count_array, top_->count_vector};
        for (int unit = 0; unit < UNITS; unit++) {
            if (now[unit] != counts[unit]) log.drained[unit].push_back(cycle);
            counts[unit] = now[unit];
            if (top_->started >> unit & 1) log.started[unit].push_back(cycle);
        }
    }

    void accept(const Bytes& words, size_t& next, uint64_t cycle) {
        if (top_->instruction_valid && top_->instruction_ready) {
            next += WORD_BYTES;
            shown_ = false;
        }
        if (top_->read_valid && top_->read_ready) {
            Response response{cycle + LATENCY + 1, {}};
            for (uint64_t i = 0; i < top_->read_bytes; i++) {
                uint64_t place = uint64_t(top_->read_address) + i;
                response.data[i] = place < memory_.size() ? memory_[place] : 0;
            }
            responses_.push_back(response);
        }
        if (top_->write_valid && top_->write_ready) {
            uint8_t line[(LINE_BYTES + 7) / 8 * 8];
            memcpy(line, &top_->write_data, LINE_BYTES);
            for (uint64_t i = 0; i < top_->write_bytes; i++) {
                uint64_t place = uint64_t(top_->write_address) + i;
                if (place < memory_.size()) memory_[place] = line[i];
            }
        }
    }

    Bytes memory_;
    Stalls stalls_;
    uint64_t most_;
    bool shown_ = false;
    std::deque<Response> responses_;
    std::unique_ptr<Vridgeline_accelerator> top_;
};

static void run_case() {
    uint64_t seed = get(), most = get(), segments = get();
    Bytes memory = get_bytes(get());
    Run run(std::move(memory), seed, most);
    put(segments);
    for (uint64_t i = 0; i < segments; i++) {
        Bytes words = get_bytes(get() * WORD_BYTES);
        Log log;
        put(run.segment(words, log));
#ifdef COUNTERS
        for (int place = 0; place < COUNTERS; place++) put(run.counter(place));
#endif
        for (auto& table : {log.started, log.drained})
            for (int unit = 0; unit < UNITS; unit++) {
                put(table[unit].size());
                for (uint64_t cycle : table[unit]) put(cycle);
            }
    }
    put(run.memory().size());
    const Bytes& left = run.memory();
    if (!left.empty() && fwrite(left.data(), 1, left.size(), output) != left.size()) exit(4);
}

int main(int argc, char** argv) {
    if (argc != 3) return 2;
    input = fopen(argv[1], "rb");
    output = fopen(argv[2], "wb");
    if (!input || !output) return 2;
    for (uint64_t left = get(); left; left--) run_case();
    return fclose(output) ? 4 : 0;
}
