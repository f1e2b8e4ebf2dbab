// A host's byte link and a memory around the Verilated stream top, served over stdin and stdout.
//
// Commands are a letter and its operands, little endian, 64 bits each:
//   s bytes ...        send so many bytes to the top, and keep what it sends meanwhile -> 1
//   g bytes            clock until the top has sent so many                            -> bytes
//   p cycles           clock until irq, or so long                                     -> irq
//   c                                                                                  -> cycles
//   v                  what of the streams' rules was broken                  -> length, text
// Everything that may stall does so at random where the seed is not 0.
//
// Defined outside: LINE_BYTES, RESPONSE_BYTES, MEMORY_BASE, MEMORY_BYTES, LATENCY.

class Board {
  public:
    Board(uint64_t seed) : random_{seed}, memory_(MEMORY_BYTES) {
        top_.rst = 1;
        for (int i = 0; i < 2; i++) clock();
        top_.rst = 0;
        started_ = true;
    }

    void send(const Bytes& bytes) {
        for (size_t next = 0; next < bytes.size();) {
            showing_ = showing_ || !random_.stalls();
            top_.in_valid = showing_;
            top_.in_data = bytes[next];
            prepare();
            if (top_.in_valid && top_.in_ready) next++, showing_ = false;
            finish();
        }
        top_.in_valid = 0;
    }

    Bytes receive(size_t size) {
        for (uint64_t waited = 0; sent_.size() < size; waited++) {
            if (waited > 1000000) exit(6);
            clock();
        }
        Bytes bytes(sent_.begin(), sent_.begin() + size);
        sent_.erase(sent_.begin(), sent_.begin() + size);
        return bytes;
    }

    bool run(uint64_t most) {
        for (uint64_t i = 0; i < most && !top_.irq; i++) clock();
        return top_.irq;
    }

    uint64_t cycle() const { return cycle_; }
    const std::string& faults() const { return faults_; }

  private:
    struct Answer {
        uint64_t due;
        Bytes data;
    };

    void broken(const std::string& what) {
        if (faults_.size() < 4000)
            faults_ += "cycle " + std::to_string(cycle_) + ": " + what + "\n";
    }

    void clock() {
        prepare();
        finish();
    }

    void prepare() {
        top_.out_ready = !random_.stalls();
        top_.read_ready = !random_.stalls();
        top_.write_ready = !random_.stalls();
        bool answer = !answers_.empty() && answers_.front().due <= cycle_ && !random_.stalls();
        top_.response_valid = answer;
        if (answer) {
            memcpy(&top_.response_data, answers_.front().data.data(), RESPONSE_BYTES);
            answers_.pop_front();
        }
        top_.clk = 0;
        top_.eval();
    }

    void finish() {
        if (started_) {
            out_.check(top_.out_valid, top_.out_ready, packed(top_.out_data),
                       [this](const std::string& what) { broken(what); });
            take();
        }
        top_.clk = 1;
        top_.eval();
        cycle_++;
    }

    uint64_t place(const char* name, uint64_t address, uint64_t size) {
        if (address >= MEMORY_BASE && address + size <= MEMORY_BASE + MEMORY_BYTES)
            return address - MEMORY_BASE;
        broken(std::string(name) + ": outside of memory");
        return 0;
    }

    void take() {
        if (top_.out_valid && top_.out_ready) sent_.push_back(top_.out_data);
        if (top_.read_valid && top_.read_ready) {
            // What a read may ask for beyond the memory's end are records that nobody needs.
            uint64_t size = top_.read_bytes, from = place("read", top_.read_address, 1);
            Bytes data(RESPONSE_BYTES);
            memcpy(data.data(), &memory_[from], std::min<uint64_t>(size, MEMORY_BYTES - from));
            answers_.push_back({cycle_ + 1 + LATENCY + random_.below(20), data});
        }
        if (top_.write_valid && top_.write_ready) {
            uint64_t size = top_.write_bytes, to = place("write", top_.write_address, size);
            Bytes data((LINE_BYTES + 7) / 8 * 8);
            memcpy(data.data(), &top_.write_data, LINE_BYTES);
            memcpy(&memory_[to], data.data(), size);
        }
    }

    Vridgeline_accelerator top_;
    Random random_;
    Bytes memory_, sent_;
    uint64_t cycle_ = 0;
    bool started_ = false, showing_ = false;
    std::deque<Answer> answers_;
    Stable out_{"out"};
    std::string faults_;
};

int main(int argc, char** argv) {
    if (argc != 2) return 2;
    Board board(strtoull(argv[1], nullptr, 10));
    for (int command; (command = getchar()) != EOF; fflush(stdout)) {
        Bytes bytes;
        switch (command) {
            case 's':
                bytes.resize(get());
                if (!bytes.empty() && fread(bytes.data(), 1, bytes.size(), stdin) != bytes.size())
                    return 3;
                board.send(bytes);
                put(1);
                break;
            case 'g':
                bytes = board.receive(get());
                fwrite(bytes.data(), 1, bytes.size(), stdout);
                break;
            case 'p':
                put(board.run(get()));
                break;
            case 'c':
                put(board.cycle());
                break;
            case 'v':
                put(board.faults().size());
                fwrite(board.faults().data(), 1, board.faults().size(), stdout);
                break;
            default:
                return 4;
        }
    }
    return 0;
}
