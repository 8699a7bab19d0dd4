"""Programs as C: a traced function becomes C99 that needs nothing but the maths library."""
