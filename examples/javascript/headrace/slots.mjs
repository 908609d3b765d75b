// The concurrency limit: slots for runs, which all queues of a worker share in turn.

/** A queue's weight relative to other queues with waiting runs. */
const WEIGHTS = { high: 9, normal: 3, low: 1 };

export class Slots {
  #waiting = []; // {queue, grant}
  #turn = 0;

  constructor(count) {
    this.left = count;
    this.queues = 0;
  }

  /** Whether there are fewer free slots than queues that may need one. */
  get scarce() {
    return this.left < this.queues - 1;
  }

  /** Returns when the queue has a slot; the queue with the fewest turns is next. */
  async take(queue) {
    // A queue that was idle gets no extra turns for that time.
    queue.turn = Math.max(queue.turn ?? 0, this.#turn);
    const granted = new Promise((grant) => this.#waiting.push({ queue, grant }));
    this.#hand();
    await granted;
  }

  giveBack() {
    this.left += 1;
    this.#hand();
  }

  #hand() {
    while (this.left > 0 && this.#waiting.length > 0) {
      this.#waiting.sort((one, other) => one.queue.turn - other.queue.turn);
      const { queue, grant } = this.#waiting.shift();
      this.left -= 1;
      this.#turn = queue.turn;
      queue.turn += 1 / (WEIGHTS[queue.consumer.split("@")[2]] ?? WEIGHTS.normal);
      grant();
    }
  }
}
